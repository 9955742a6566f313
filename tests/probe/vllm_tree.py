"""A made-up vLLM with the real dotted names of 0.22: the V1 runner, synchronous and asynchronous."""

from __future__ import annotations

from pathlib import Path

from tests.probe.engine_trees import fake_torch_files, write

_RUNNER = """
import torch
class Output:
    def __init__(self, tokens): self.sampled_token_ids = tokens
class AsyncGPUModelRunnerOutput:
    def __init__(self, tokens): self.tokens = tokens
    def get_output(self): return Output(self.tokens)
class Mode:
    name = "FULL"
class Description:
    num_reqs, num_tokens = 4, 16
class GPUModelRunner:
    num_spec_tokens, asynchronous = 3, True
    def __init__(self):
        self.drafter = __import__("vllm.v1.spec_decode.llm_base_proposer", fromlist=["x"])
        self.group = __import__("vllm.distributed.parallel_state", fromlist=["x"]).GroupCoordinator()
    def execute_model(self, scheduler_output, intermediate_tensors=None):
        self.requests = scheduler_output.num_scheduled_tokens
        self._determine_batch_execution_and_padding()
        torch.gpu.kernel(5000.0)
    def _determine_batch_execution_and_padding(self): return Mode, Description, False, None, None
    def sample_tokens(self, grammar_output):
        self._sample(None, None)
        if self.num_spec_tokens: self.propose_draft_token_ids()
        tokens = [[7] * (1 + at) for at, _ in enumerate(self.requests)]
        return AsyncGPUModelRunnerOutput(tokens) if self.asynchronous else Output(tokens)
    def _sample(self, logits, spec_decode_metadata): torch.gpu.kernel(60.0)
    def propose_draft_token_ids(self):
        for _ in range(self.num_spec_tokens):
            torch.gpu.kernel(30.0)
            with self.drafter.set_forward_context(None):
                torch.gpu.kernel(193.0)
                self.group._all_reduce_out_place(0)
"""

_PROPOSER = "from vllm.forward_context import set_forward_context\n"

_CONTEXT = """
from contextlib import contextmanager
@contextmanager
def set_forward_context(*args, **kwargs): yield
def is_forward_context_available(): return False
"""

_GROUPS = """
class GroupCoordinator:
    def _all_reduce_out_place(self, input_):
        import torch
        torch.gpu.kernel(7.0)
    def _all_gather_out_place(self, input_, dim): pass
"""

_WORKER = """
class Parallel:
    tensor_parallel_size, pipeline_parallel_size, data_parallel_rank, data_parallel_size = 2, 1, 0, 1
class Model:
    model, enforce_eager = "target", False
class Speculative:
    model, method, num_speculative_tokens, draft_tensor_parallel_size = "draft", "eagle3", 3, 2
class Config:
    parallel_config, model_config, speculative_config = Parallel(), Model(), Speculative()
class Worker:
    def __init__(self, vllm_config, local_rank, rank, distributed_init_method, is_driver_worker=False): pass
"""

# Runs what its arguments say, then prints the answers of the probe's own socket.
_SERVE = """
import json, os, socket, sys, time
import fake_torch_module
from importlib.metadata import entry_points
for point in entry_points(group="vllm.general_plugins"): point.load()()
from vllm.v1.worker.gpu_worker import Config, Worker
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
class Cached: num_computed_tokens = [100, 200]
class Scheduled:
    scheduled_new_reqs, scheduled_cached_reqs = [], Cached
    def __init__(self, drafts, new=()):
        self.scheduled_new_reqs = list(new)
        self.num_scheduled_tokens = {"a": 1 + drafts, "b": 1 + drafts}
        self.scheduled_spec_decode_tokens = {"a": [5] * drafts, "b": [5] * drafts} if drafts else {}
config = Config()
if "plain" in sys.argv: config.speculative_config = None
Worker(config, 1, 1, "", False)
runner = GPUModelRunner()
runner.asynchronous = "sync" not in sys.argv
if "plain" in sys.argv: runner.num_spec_tokens = 0
client = socket.socket(socket.AF_UNIX)
client.connect(os.path.join(os.environ["TOOLKIT_PROBE_DIR"], f"{os.getpid()}.sock"))
lines = client.makefile("rw")
def ask(**request):
    lines.write(json.dumps(request) + "\\n"); lines.flush()
    return json.loads(lines.readline())
status = ask(do="status")
started = ask(do="start", folder=os.getcwd(), steps_every=1)
def step(scheduled):
    runner.execute_model(scheduled)
    result = runner.sample_tokens(None)
    if runner.asynchronous: assert result.get_output().sampled_token_ids[1] == [7, 7]
step(Scheduled(0, new=["a"]))
for _ in range(4): step(Scheduled(runner.num_spec_tokens))
print(json.dumps({"status": status, "stopped": ask(do="stop")}))
"""


def write_vllm(folder: Path) -> Path:
    """Write the tree and its driver; return the driver."""
    files = {
        "vllm/forward_context.py": _CONTEXT,
        "vllm/distributed/parallel_state.py": _GROUPS,
        "vllm/v1/worker/gpu_worker.py": _WORKER,
        "vllm/v1/worker/gpu_model_runner.py": _RUNNER,
        "vllm/v1/spec_decode/llm_base_proposer.py": _PROPOSER,
        "vllm-0.22.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.22.0\n",
        "serve.py": _SERVE,
    }
    return write(folder, {**files, **fake_torch_files()})
