"""What is wrapped, per engine and version: the only file that names a class of an engine.

`make engine-facts` and its test keep this table true: every target of a version that has facts is in them.
A target holds from `since` on and before `before`; where nobody looked at the releases between, two names
overlap, and one that is missing matters only when no other target of its role is there.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Target(NamedTuple):
    """A function of an engine and the part it plays. `name` is its qualified name inside `module`."""

    role: str
    module: str
    name: str
    since: str = "0"
    before: str = "9999"

    @property
    def dotted(self) -> str:
        """Return the full dotted name, as reports give it."""
        return f"{self.module}.{self.name}"


INHERITED = {"generators", "graph_made"}  # whose target a class may inherit: undoing it deletes our name

_SRT = "sglang.srt."
_EAGLE_V1 = _SRT + "speculative.eagle_worker"
_EAGLE_V2 = _SRT + "speculative.eagle_worker_v2"
_RESULTS = _SRT + "managers.scheduler_components.batch_result_processor"
_DRAFT_GRAPH = _SRT + "speculative.eagle_draft_cuda_graph_runner"
_EXTEND_GRAPH = _SRT + "speculative.eagle_draft_extend_cuda_graph_runner"
_OLD_GRAPH = _SRT + "model_executor.cuda_graph_runner"
# What the engine's own operators call: its public methods are traced by torch.compile, these never are.
_GROUP = "distributed.parallel_state"
_FULL_GRAPH = _SRT + "model_executor.runner_backend.full_cuda_graph_backend"
_BREAKABLE_GRAPH = _SRT + "model_executor.runner_backend.breakable_cuda_graph_backend"

SGLANG = (
    Target("rank", _SRT + "managers.scheduler", "Scheduler.__init__"),
    Target("plain_cycle", _SRT + "managers.scheduler", "Scheduler.run_batch"),
    Target("decode", _SRT + "managers.tp_worker", "TpModelWorker.forward_batch_generation"),
    Target("cycle", _EAGLE_V1, "EAGLEWorker.forward_batch_generation", before="0.5.15"),
    Target("draft", _EAGLE_V1, "EAGLEWorker.draft", before="0.5.15"),
    Target("verify", _EAGLE_V1, "EAGLEWorker.verify", before="0.5.15"),
    Target("draft_extend", _EAGLE_V1, "EAGLEWorker.forward_draft_extend_after_decode", before="0.5.15"),
    Target("cycle", _EAGLE_V2, "EAGLEWorkerV2.forward_batch_generation"),
    Target("draft", _EAGLE_V2, "EagleDraftWorker.draft"),
    Target("verify", _EAGLE_V2, "EAGLEWorkerV2.verify"),
    Target("draft_extend", _EAGLE_V2, "EagleDraftWorker._draft_extend_for_decode"),
    Target(
        "acceptance",
        _SRT + "managers.scheduler_output_processor_mixin",
        "SchedulerOutputProcessorMixin._resolve_spec_overlap_token_ids",
        before="0.5.15",
    ),
    Target("acceptance", _RESULTS, "SchedulerBatchResultProcessor._resolve_spec_v2_tokens", since="0.5.11"),
    Target("draft_forward", _SRT + "model_executor.model_runner", "ModelRunner.forward"),
    Target("collective", _SRT + _GROUP, "GroupCoordinator._all_reduce_out_place"),
    Target("collective", _SRT + _GROUP, "GroupCoordinator._all_reduce_in_place"),
    Target("collective", _SRT + _GROUP, "GroupCoordinator._all_gather_into_tensor"),
    Target("graph_scope", _OLD_GRAPH, "CudaGraphRunner.capture_one_batch_size", before="0.5.15"),
    Target("graph_scope", _DRAFT_GRAPH, "EAGLEDraftCudaGraphRunner.capture_one_batch_size", before="0.5.15"),
    Target(
        "graph_scope",
        _EXTEND_GRAPH,
        "EAGLEDraftExtendCudaGraphRunner.capture_one_batch_size",
        before="0.5.15",
    ),
    Target("graph_scope", _FULL_GRAPH, "FullCudaGraphBackend.capture_one", since="0.5.11"),
    Target("replay", _OLD_GRAPH, "CudaGraphRunner.replay", before="0.5.15"),
    Target("replay", _DRAFT_GRAPH, "EAGLEDraftCudaGraphRunner.replay", before="0.5.15"),
    Target("replay", _EXTEND_GRAPH, "EAGLEDraftExtendCudaGraphRunner.replay", before="0.5.15"),
    Target("replay", _FULL_GRAPH, "FullCudaGraphBackend.replay", since="0.5.11"),
    Target("part_replay", _BREAKABLE_GRAPH, "BreakableCudaGraphBackend.replay", since="0.5.11"),
)

_V1_RUNNER = "vllm.v1.worker.gpu_model_runner"
_V2_RUNNER = "vllm.v1.worker.gpu.model_runner"
_V2_SPEC = "vllm.v1.worker.gpu.spec_decode."
_PROPOSER = "vllm.v1.spec_decode.llm_base_proposer"
_V2_AR = _V2_SPEC + "target_dependent_ar.speculator"

VLLM = (
    Target("rank", "vllm.v1.worker.gpu_worker", "Worker.__init__"),
    Target("verify", _V1_RUNNER, "GPUModelRunner.execute_model"),
    Target("cycle", _V1_RUNNER, "GPUModelRunner.sample_tokens"),
    Target("sample", _V1_RUNNER, "GPUModelRunner._sample"),
    Target("draft", _V1_RUNNER, "GPUModelRunner.propose_draft_token_ids"),
    Target("padding", _V1_RUNNER, "GPUModelRunner._determine_batch_execution_and_padding"),
    Target("acceptance", _V1_RUNNER, "AsyncGPUModelRunnerOutput.get_output"),
    Target("forward_context", _PROPOSER, "set_forward_context"),
    Target("collective", "vllm." + _GROUP, "GroupCoordinator._all_reduce_out_place"),
    Target("collective", "vllm." + _GROUP, "GroupCoordinator._all_gather_out_place"),
    Target("verify", _V2_RUNNER, "GPUModelRunner.execute_model"),
    Target("cycle", _V2_RUNNER, "GPUModelRunner.sample_tokens"),
    Target("sample", _V2_RUNNER, "GPUModelRunner.sample"),
    Target("replay", "vllm.v1.worker.gpu.cudagraph_utils", "CudaGraphManager.run_fullgraph"),
    Target("acceptance", "vllm.v1.worker.gpu.async_utils", "AsyncOutput.get_output"),
    Target("draft", _V2_SPEC + "eagle.speculator", "EagleSpeculator.propose", before="0.33"),
    Target("draft_forward", _V2_SPEC + "eagle.speculator", "EagleSpeculator.run_model", before="0.33"),
    Target("draft", _V2_AR, "TargetDependentARSpeculator.propose", since="0.23"),
    Target("draft_forward", _V2_AR, "TargetDependentARSpeculator._run_model", since="0.23"),
)

_CYCLE = "toolkit.reference.cycle"

REFERENCE = (
    Target("rank", "toolkit.reference.engine", "Engine.__init__"),
    Target("other", "toolkit.reference.engine", "Engine._prefill"),
    Target("draft_forward", "toolkit.reference.draft", "Draft.forward"),
    Target("collective", "toolkit.reference.collectives", "all_reduce"),
    Target("collective", "toolkit.reference.collectives", "all_gather"),
    Target("cycle", _CYCLE, "Cycle.run"),
    Target("draft", _CYCLE, "Cycle.draft"),
    Target("verify", _CYCLE, "Cycle.verify"),
    Target("sample", _CYCLE, "Cycle.accept"),
    Target("draft_extend", _CYCLE, "Cycle.draft_extend"),
    Target("decode", _CYCLE, "Cycle.decode"),
)

# While a graph is captured: where its first and last node go. Every engine captures through these.
TORCH = (
    Target("capture", "torch.cuda.graphs", "CUDAGraph.capture_begin"),
    Target("capture_end", "torch.cuda.graphs", "CUDAGraph.capture_end"),
    Target("generators", "torch.cuda.graphs", "CUDAGraph.register_generator_state"),
    Target("graph_made", "torch.cuda.graphs", "CUDAGraph.__init__"),
)

_ENGINES = {"sglang": SGLANG, "vllm": VLLM, "reference": REFERENCE}


def targets_of(engine: str, version: str) -> tuple[Target, ...]:
    """Return the targets of one version of an engine; an unknown version gets the newest ones."""
    numbers = release(version) or (9998,)
    return tuple(
        target for target in _ENGINES[engine] if release(target.since) <= numbers < release(target.before)
    )


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: 0.5.10.post1 is (0, 5, 10); () when it has none."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
