"""SGLang: what its batches, workers and results mean. Nothing here reads a tensor on a GPU."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from .acceptance import Acceptance
from .guard import Arguments, Hook
from .phases import Phase, count, replay_note
from .rank import Rank, Roles
from .recorder import Recorder
from .recording import Cycle

_SUPPORTED = {"EAGLE", "EAGLE3", "STANDALONE", "NEXTN"}
_ARGUMENTS = {
    "tp_size": "tp_size",
    "dp_size": "dp_size",
    "pp_size": "pp_size",
    "num_steps": "speculative_num_steps",
    "topk": "speculative_eagle_topk",
    "num_draft_tokens": "speculative_num_draft_tokens",
    "algorithm": "speculative_algorithm",
    "adaptive": "speculative_adaptive",
    "multi_layer_eagle": "enable_multi_layer_eagle",
    "model": "model_path",
    "draft_model": "speculative_draft_model_path",
    "attention_backend": "attention_backend",
    "disable_cuda_graph": "disable_cuda_graph",
    "enable_dp_attention": "enable_dp_attention",
    "page_size": "page_size",
}


def hooks(recorder: Recorder, acceptance: Acceptance) -> dict[str, Hook]:
    """Return the hook of each role that runs while awake."""
    return {
        "plain_cycle": PlainCycle(recorder),
        "decode": Decode(recorder, "decode"),
        "cycle": SpeculativeCycle(recorder, acceptance),
        "draft": Phase(recorder, "draft"),
        "verify": Phase(recorder, "verify"),
        "draft_extend": Phase(recorder, "draft_extend"),
        "acceptance": Counts(acceptance),
    }


def notes(recorder: Recorder) -> dict[str, Callable[[Arguments], None]]:
    """Return what is noted behind a call, by role."""
    return {
        "replay": replay_note(recorder, padded_size, whole=True),
        "part_replay": replay_note(recorder, padded_size, whole=None),
    }


def is_draft(args: Arguments) -> bool:
    """Say whether a ModelRunner is the draft's."""
    return bool(getattr(args[0], "is_draft_worker", False))


def padded_size(args: Arguments) -> int | None:
    """Return the captured batch size of a replay: the key's, or what the runner of 0.5.9 keeps."""
    if len(args) > 1 and hasattr(args[1], "size") and not callable(args[1].size):
        return count(args[1].size)
    return count(getattr(args[0], "bs", None))


class SpeculativeCycle:
    """One decode call of an EAGLE worker, v1 or v2."""

    def __init__(self, recorder: Recorder, acceptance: Acceptance) -> None:
        self.recorder = recorder
        self.acceptance = acceptance

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Open a cycle for a decode batch; prefill and idle batches leave a gap in the numbers."""
        batch = args[1] if len(args) > 1 else kwargs.get("batch", kwargs.get("model_worker_batch"))
        if not decodes(batch):
            self.recorder.other_work()
            return None
        cycle = self.recorder.begin_cycle()
        if cycle is not None:
            describe(cycle, batch)
        return cycle

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Read the step count inside the call that used it: adaptive steps change between calls."""
        worker = args[0]
        token.num_steps = count(getattr(worker, "speculative_num_steps", None))
        drafts = getattr(result, "speculative_num_draft_tokens", None)
        token.num_draft_tokens = count(drafts) or count(getattr(worker, "speculative_num_draft_tokens", None))
        known = getattr(result, "accept_length_per_req_cpu", None)
        if isinstance(known, list):
            token.correct = [int(kept) for kept in known]
        elif getattr(result, "accept_lens", None) is not None:
            self.acceptance.expect(result, token)
        self.recorder.end_cycle()


class PlainCycle:
    """One decode batch of a server without speculation."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Open a cycle; None where the speculative worker opens it."""
        batch = args[1] if len(args) > 1 else kwargs.get("batch")
        if batch is None or not decodes(batch):
            self.recorder.other_work()
            return None
        if not batch.spec_algorithm.is_none():
            return None
        cycle = self.recorder.begin_cycle()
        if cycle is not None:
            cycle.place = None  # run_batch enters its own stream: stamps are taken on that one
            describe(cycle, batch)
            cycle.num_steps, cycle.num_draft_tokens = 0, 1
        return cycle

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Close it."""
        self.recorder.end_cycle()


class Decode(Phase):
    """The forward of plain decoding; inside a speculative cycle the same call belongs to verify."""

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Open the phase in a plain cycle only."""
        cycle = self.recorder.cycle
        if cycle is None or cycle.num_steps != 0:
            return None
        return self.recorder.begin_stage(self.phase)


class Counts:
    """The result processor: accepted lengths are on the host here."""

    def __init__(self, acceptance: Acceptance) -> None:
        self.acceptance = acceptance

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Any:
        """Return the result; its counts are there after the call."""
        return args[1] if len(args) > 1 else kwargs.get("result")

    def end(self, token: Any, args: Arguments, result: Any) -> None:
        """Join the correct drafts of each request, bonus excluded."""
        kept = getattr(token, "num_correct_drafts_per_req_cpu", None)
        if kept is None:
            kept = getattr(token, "accept_length_per_req_cpu", None)
        if kept is not None:
            self.acceptance.arrived(token, [int(one) for one in kept])


def decodes(batch: Any) -> bool:
    """Say whether a batch is decoding only, with requests in it."""
    mode = batch.forward_mode
    return bool(mode.is_decode()) and not getattr(batch, "is_extend_in_batch", False)


def describe(cycle: Cycle, batch: Any) -> None:
    """Write down batch size and mean context from host memory; a length may be one cycle old."""
    requests = getattr(batch, "reqs", None)
    total = count(getattr(batch, "seq_lens_sum", None))
    if requests:
        cycle.batch_size = len(requests)
        if not total:
            total = sum(len(one.origin_input_ids) + len(one.output_ids) for one in requests)
    else:
        cycle.batch_size = int(batch.seq_lens.shape[0])
    if total and cycle.batch_size:
        cycle.context = round(total / cycle.batch_size)


def rank_of(original: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]) -> Rank:
    """Return the rank that a Scheduler is made for."""
    given = inspect.signature(original).bind_partial(*args, **kwargs).arguments
    server_args = given.get("server_args")
    ranks = {name: count(given.get(name)) for name in ("tp_rank", "dp_rank", "pp_rank")}
    if ranks["tp_rank"] is None:  # from 0.5.2x on the process's context holds them
        context = sys.modules.get("sglang.srt.runtime_context")
        with contextlib.suppress(Exception):
            parallel = context.get_parallel()  # type: ignore[union-attr]
            ranks = {name: count(getattr(parallel, name, None)) for name in ranks}
    return Rank(
        tp_rank=ranks["tp_rank"] or 0,
        dp_rank=ranks["dp_rank"] or 0,
        pp_rank=ranks["pp_rank"] or 0,
        arguments=lambda: arguments_of(server_args),
        roles=lambda: roles_of(server_args),
    )


def arguments_of(server_args: Any) -> dict[str, Any]:
    """Return the settings that matter, as they are now: adaptive steps change them."""
    found = {name: getattr(server_args, field, None) for name, field in _ARGUMENTS.items()}
    overlap = getattr(server_args, "disable_overlap_schedule", None)
    found["overlap_schedule"] = None if overlap is None else not overlap
    return {name: value for name, value in found.items() if isinstance(value, (str, int, bool))}


def roles_of(server_args: Any) -> Roles:
    """Return the roles that this server needs, and why one of them cannot be hooked."""
    algorithm = getattr(server_args, "speculative_algorithm", None)
    shared = ("collective",) if (count(getattr(server_args, "tp_size", None)) or 1) > 1 else ()
    if not algorithm:
        return Roles(("plain_cycle", "decode", *shared), {})
    roles = ("cycle", "draft", "verify", "draft_extend", "acceptance", *shared)
    if str(algorithm).upper() not in _SUPPORTED:
        return Roles(roles, {"cycle": f"failed: {algorithm} has a worker of its own, which is not supported"})
    if getattr(server_args, "enable_multi_layer_eagle", False):
        why = "failed: MultiLayerEagleWorkerV2 has a cycle of its own, which is not supported"
        return Roles(roles, {"cycle": why})
    return Roles(roles, {})


def scheduler_process() -> bool:
    """Say whether this process is a rank: a child in which the scheduler's module is complete."""
    import multiprocessing

    module = sys.modules.get("sglang.srt.managers.scheduler")
    return multiprocessing.parent_process() is not None and hasattr(module, "run_scheduler_process")


def exchanges(args: Arguments) -> bool:
    """Say whether a group's call is a collective: a group of one never comes to it."""
    return True


def graph_wanted() -> bool:
    """Say whether a graph gets events: one that a runner captures whole."""
    return Scope.inside()


class Scope:
    """The depth of calls that capture one whole graph; prefill's piecewise graphs are captured elsewhere."""

    depth = 0

    @classmethod
    def inside(cls) -> bool:
        """Say whether such a call is running."""
        return cls.depth > 0

    @classmethod
    def around(cls, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `original`, counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            cls.depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                cls.depth -= 1

        return call
