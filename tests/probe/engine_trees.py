"""A made-up SGLang with the real dotted names: small classes that go through the motions of a cycle.

`write_sglang(folder, version)` writes a package tree that a subprocess imports. `serve.py` beside it loads
plugins as the engine does, then runs cycles as lines come through the pipe that its first argument names.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

_COMMON = """
class Mode:
    def __init__(self, name): self.name = name
    def is_decode(self): return self.name == "DECODE"
    def is_extend(self): return self.name == "EXTEND"
    def is_idle(self): return self.name == "IDLE"

class Algorithm:
    def __init__(self, name): self.name = name
    def is_none(self): return self.name is None

class Req:
    def __init__(self, context): self.origin_input_ids, self.output_ids = [0] * context, []

class Batch:
    def __init__(self, contexts, mode="DECODE", algorithm=None):
        self.reqs = [Req(one) for one in contexts]
        self.forward_mode, self.spec_algorithm = Mode(mode), Algorithm(algorithm)
        self.is_extend_in_batch, self.seq_lens_sum = False, None

class Args:
    tp_size = dp_size = pp_size = 1
    model_path, speculative_draft_model_path = "target", "draft"
    speculative_algorithm, speculative_num_steps = "EAGLE3", 3
    speculative_eagle_topk, speculative_num_draft_tokens = 1, 4
    attention_backend, disable_overlap_schedule, disable_cuda_graph = "triton", False, False
    enable_multi_layer_eagle = False

class Result:
    def __init__(self, **fields): self.__dict__.update(fields)
"""

_SCHEDULER = """
from sglang.common import Args, Batch, Result
class Scheduler:
    def __init__(self, server_args, port_args, gpu_id, tp_rank, moe_ep_rank=0, pp_rank=0, dp_rank=None):
        self.tp_rank = tp_rank
    def run_batch(self, batch, pp_proxy_tensors=None):
        return self.model_worker.forward_batch_generation(batch)
def run_scheduler_process(server_args, tp_rank, drive):
    from sglang.srt.plugins import load_plugins
    load_plugins()
    scheduler = Scheduler(server_args, None, 0, tp_rank)
    drive(scheduler, server_args)
"""

_PLUGINS = """
from importlib.metadata import entry_points
def load_plugins():
    for point in entry_points(group="sglang.srt.plugins"):
        point.load()()
"""

_TP_WORKER = """
from sglang.common import Result
class TpModelWorker:
    def forward_batch_generation(self, batch, **kwargs):
        return Result(next_token_ids=[1])
"""

_MODEL_RUNNER = """
import torch
class ModelRunner:
    def __init__(self, is_draft_worker): self.is_draft_worker = is_draft_worker
    def forward(self, forward_batch):
        torch.gpu.kernel(250.0 if self.is_draft_worker else 5000.0)
"""

_EAGLE_V2 = """
import time, torch
from sglang.common import Result
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.model_executor.runner_backend.full_cuda_graph_backend import FullCudaGraphBackend, Key
class EagleDraftWorker:
    def __init__(self, args):
        self.speculative_num_steps = args.speculative_num_steps
        self.runner, self.backend = ModelRunner(True), FullCudaGraphBackend()
        if not args.disable_cuda_graph:
            for size in (1, 2, 4): self.backend.capture_one(Key(size), self.draft_forward)
    def draft_forward(self):
        for _ in range(self.speculative_num_steps - 1):
            torch.gpu.kernel(20.0)
            self.runner.forward(None)
    def draft(self, batch):
        size = next((one.size for one in self.backend.graphs if one.size >= len(batch.reqs)), None)
        torch.gpu.kernel(100.0)
        if size is None: self.draft_forward()
        else: self.backend.replay(Key(size), None)
    def _draft_extend_for_decode(self, batch, batch_result): torch.gpu.kernel(300.0)
class EAGLEWorkerV2:
    def __init__(self, args):
        self.speculative_num_steps, self.topk = args.speculative_num_steps, 1
        self.speculative_num_draft_tokens = args.speculative_num_draft_tokens
        self.draft_worker, self.fail = EagleDraftWorker(args), False
    def forward_batch_generation(self, batch, on_publish=None):
        if batch.forward_mode.is_extend(): return Result()
        self.draft_worker.draft(batch)
        result = self.verify(batch)
        self.draft_worker._draft_extend_for_decode(batch, result)
        return result
    def verify(self, batch):
        if self.fail: raise ZeroDivisionError("the engine's own")
        torch.gpu.kernel(5000.0)
        return Result(accept_lens=[3] * len(batch.reqs), speculative_num_draft_tokens=4)
"""

_FULL_GRAPH = """
import torch
class Key:
    def __init__(self, size): self.size = size
    def __eq__(self, other): return self.size == other.size
    def __hash__(self): return self.size
class FullCudaGraphBackend:
    def __init__(self): self.graphs = {}
    def capture_one(self, shape_key, forward_fn, dummies=None, post_warmup_hook=None):
        for _ in range(2): forward_fn()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(cuda_graph=graph): forward_fn()
        self.graphs[shape_key] = graph
    def replay(self, shape_key, static_forward_batch, **kwargs): self.graphs[shape_key].replay()
"""

_RESULTS = """
class SchedulerBatchResultProcessor:
    def _resolve_spec_v2_tokens(self, result, batch):
        result.num_correct_drafts_per_req_cpu = [one - 1 for one in result.accept_lens]
        return []
"""

_EAGLE_V1 = """
import torch
from sglang.common import Result
class EAGLEWorker:
    def __init__(self, args):
        self.speculative_num_steps, self.topk, self.speculative_num_draft_tokens = 3, 1, 4
    def forward_batch_generation(self, batch):
        if batch.forward_mode.is_extend(): return Result()
        spec = self.draft(batch)
        self.verify(batch, spec)
        self.forward_draft_extend_after_decode(batch)
        return Result(accept_length_per_req_cpu=[2] * len(batch.reqs), can_run_cuda_graph=False)
    def draft(self, batch): torch.gpu.kernel(800.0)
    def verify(self, batch, spec_info): torch.gpu.kernel(5000.0)
    def forward_draft_extend_after_decode(self, batch): torch.gpu.kernel(300.0)
"""

# Reads commands, one a line: decode N, plain N, prefill, fail, names, quit. Answers each with one JSON line.
_SERVE = """
import json, multiprocessing, os, sys, time
import fake_torch_module  # noqa: F401 -- puts torch into sys.modules
from sglang.common import Args, Batch

def drive(scheduler, args):
    from sglang.srt.managers.tp_worker import TpModelWorker
    worker = make_worker(args)
    plain, pending, processor = TpModelWorker(), None, make_processor()
    say({"ready": os.getpid()})
    for line in sys.stdin:
        word, *rest = line.split()
        answer = {}
        if word == "decode":
            scheduler.model_worker = worker
            for _ in range(int(rest[0])):
                time.sleep(0.004)
                batch = Batch([100, 120], algorithm="EAGLE3")
                result = scheduler.run_batch(batch)
                if pending and processor: processor(*pending)
                pending = (result, batch)
        elif word == "plain":
            scheduler.model_worker = plain
            for _ in range(int(rest[0])): scheduler.run_batch(Batch([50]))
        elif word == "prefill":
            scheduler.model_worker = worker
            scheduler.run_batch(Batch([10], "EXTEND", "EAGLE3"))
        elif word == "fail":
            worker.fail = True
            try: scheduler.run_batch(Batch([10], algorithm="EAGLE3"))
            except ZeroDivisionError as error: answer["raised"] = str(error)
            worker.fail = False
        elif word == "modules": answer["modules"] = sorted(sys.modules)
        elif word == "names":
            held = [m for name, m in list(sys.modules.items()) if name.startswith("sglang.")]
            kinds = {thing for m in held for thing in vars(m).values() if isinstance(thing, type)}
            answer["hooked"] = sorted(
                name for kind in kinds for name, it in vars(kind).items() if hasattr(it, "__toolkit_probe__"))
        elif word == "quit": break
        say(answer)

def say(answer):
    sys.__stdout__.write(json.dumps(answer) + "\\n"); sys.__stdout__.flush()

def make_processor():
    if VERSION == "0.5.9": return None
    from sglang.srt.managers.scheduler_components import batch_result_processor
    return batch_result_processor.SchedulerBatchResultProcessor()._resolve_spec_v2_tokens

def make_worker(args):
    if VERSION == "0.5.9":
        from sglang.srt.speculative.eagle_worker import EAGLEWorker as Worker
    else:
        from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2 as Worker
    return Worker(args)

def rank(tp_rank):
    sys.stdin = open(sys.argv[1])
    from sglang.srt.managers.scheduler import run_scheduler_process
    args = Args()
    for word in sys.argv[2:]:
        key, value = word.split("=")
        setattr(args, key, {"none": None, "true": True}.get(value, value))
    run_scheduler_process(args, tp_rank, drive)

if __name__ == "__main__":
    import sglang.srt.managers.scheduler
    from sglang.srt.plugins import load_plugins
    load_plugins()  # as the launcher does
    child = multiprocessing.get_context("spawn").Process(target=rank, args=(0,))
    child.start(); child.join(); sys.exit(child.exitcode)
"""

_FAKE_TORCH = """
import ctypes, os, sys, types
from tests_fake_driver import FakeCuda
from tests_fake_torch import TrialGpu, make
gpu = TrialGpu()
torch, load, cuda = make(gpu), ctypes.CDLL, FakeCuda(gpu)
if "NO_DRIVER" not in os.environ:
    ctypes.CDLL = lambda name, *rest, **more: cuda if name == "libcuda.so.1" else load(name, *rest, **more)
if "NO_OPEN_COPY" in os.environ:
    clone = cuda.cuGraphClone
    cuda.cuGraphClone = lambda made, graph: 1 if gpu.capture is not None else clone(made, graph)
for name, module in (("torch", torch), ("torch.cuda", torch.cuda), ("torch.cuda.graphs", torch.cuda.graphs)):
    module.__spec__ = types.SimpleNamespace(_initializing=False)
    sys.modules[name] = module
"""


def write_sglang(folder: Path, version: str = "0.5.15", without: str = "") -> Path:
    """Write the tree and its driver; `without` names a method to leave out. Return the driver."""
    srt = "sglang/srt/"
    files = {
        "sglang/common.py": _COMMON,
        srt + "managers/scheduler.py": _SCHEDULER,
        srt + "managers/tp_worker.py": _TP_WORKER,
        srt + "model_executor/model_runner.py": _MODEL_RUNNER,
    }
    if version == "0.5.9":
        files[srt + "speculative/eagle_worker.py"] = _EAGLE_V1
        files[srt + "plugins/__init__.py"] = "def load_plugins(): pass\n"
    else:
        files[srt + "plugins/__init__.py"] = _PLUGINS
        files[srt + "speculative/eagle_worker_v2.py"] = _EAGLE_V2
        files[srt + "model_executor/runner_backend/full_cuda_graph_backend.py"] = _FULL_GRAPH
        files[srt + "managers/scheduler_components/batch_result_processor.py"] = _RESULTS
    if without:
        for name, source in files.items():
            files[name] = source.replace(f"def {without}(", f"def renamed_{without.strip('_')}(").replace(
                f".{without}(", f".renamed_{without.strip('_')}("
            )
    files[f"sglang-{version}.dist-info/METADATA"] = f"Name: sglang\nVersion: {version}\n"
    files["serve.py"] = f'VERSION = "{version}"\n' + _SERVE
    return write(folder, {**files, **fake_torch_files()})


def fake_torch_files() -> dict[str, str]:
    """Return the files that put the tests' torch into an engine's process."""
    source = (Path(__file__).parent / "fake_torch.py").read_text()
    driver = (Path(__file__).parent / "fake_driver.py").read_text()
    return {
        "fake_torch_module.py": _FAKE_TORCH,
        "tests_fake_driver.py": driver,
        "tests_fake_torch.py": source.replace("import pytest\n", ""),
    }


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files and the __init__.py of their packages; return the driver."""
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        for parent in path.relative_to(folder).parents:
            if parent.parts and "dist-info" not in parent.name:
                (folder / parent / "__init__.py").touch()
    return folder / "serve.py"
