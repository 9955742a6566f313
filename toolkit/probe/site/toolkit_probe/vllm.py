"""vLLM: what its scheduler's and runner's objects mean, for the V1 runner and the newer V2 one.

A cycle is execute_model (verify), then sample_tokens (sample, draft): the first draft forward runs over all
verified tokens and is the extend as well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from .acceptance import Acceptance
from .guard import Arguments, Hook
from .phases import Phase, count
from .rank import Rank, Roles
from .recorder import Recorder
from .recording import Cycle

_DRAFT_MODELS = ("eagle", "mtp", "draft_model")  # eagle3 and the models' own MTP names included


def hooks(recorder: Recorder, acceptance: Acceptance) -> dict[str, Hook]:
    """Return the hook of each role that runs while awake."""
    return {
        "verify": Execute(recorder),
        "cycle": SampleTokens(recorder, acceptance),
        "sample": Phase(recorder, "sample"),
        "draft": Phase(recorder, "draft"),
        "padding": Padding(recorder),
        "replay": FullGraph(recorder),
        "acceptance": Counts(acceptance),
    }


def notes(recorder: Recorder) -> dict[str, Callable[[Arguments], None]]:
    """Return what is noted behind a call, by role: nothing."""
    return {}


def is_draft(args: Arguments) -> bool:
    """Say whether a forward is the draft's: only the speculator's is hooked."""
    return True


class Execute:
    """`execute_model` of a decode batch: opens the cycle, and is its verify or plain decode phase."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Open cycle and phase; a prefill, a mixed batch or a step without drafts leaves a gap."""
        runner = args[0]
        scheduled = args[1] if len(args) > 1 else kwargs.get("scheduler_output")
        if kwargs.get("dummy_run") or (len(args) > 3 and args[3]):
            return None
        steps = step_count(runner)
        drafts = decode_drafts(scheduled)
        if drafts is None or (steps and not drafts):
            self.recorder.other_work()
            return None
        cycle = self.recorder.begin_cycle()
        if cycle is None:
            return None
        describe(cycle, scheduled, drafts)
        return self.recorder.begin_stage("verify" if drafts else "decode")

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Close the phase; the cycle goes on to sample_tokens unless there was nothing to sample."""
        self.recorder.end_stage(token)
        if result is not None:
            self.recorder.abandon()


class SampleTokens:
    """`sample_tokens`: closes the cycle. Its result holds the tokens, now or when they are copied."""

    def __init__(self, recorder: Recorder, acceptance: Acceptance) -> None:
        self.recorder = recorder
        self.acceptance = acceptance

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Return the open cycle."""
        return self.recorder.cycle

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Join acceptance and close."""
        if token.num_steps:
            if hasattr(result, "get_output"):
                self.acceptance.expect(result, token)
            else:
                token.correct = correct_drafts(result)
        self.recorder.end_cycle()


class Padding:
    """The V1 runner's choice of graph: mode and padded batch."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Return the open cycle; None outside a phase."""
        cycle = self.recorder.cycle
        return None if cycle is None or cycle.open_stage is None else cycle

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Note it. A piecewise graph is neither a graph nor eager: null."""
        mode, description = result[0], result[1]
        if mode.name == "NONE" or token.open_stage is None:
            return
        padded = count(getattr(description, "num_reqs", None))
        if padded is None and token.num_draft_tokens:
            padded = -(-int(description.num_tokens) // token.num_draft_tokens)
        self.recorder.replayed(padded, True if mode.name == "FULL" else None)


class FullGraph:
    """The V2 runner's replay of a full graph; in an eager draft loop each replay is one draft forward."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Return the open cycle; None outside a phase."""
        cycle = self.recorder.cycle
        if cycle is None or cycle.open_stage is None:
            return None
        if self.recorder.marks is not None:
            self.recorder.marks.begin()
        return cycle

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Note the replay."""
        if self.recorder.marks is not None:
            self.recorder.marks.end()
        self.recorder.replayed(count(getattr(args[1], "num_reqs", None)), True)


class Counts:
    """`get_output` of an asynchronous result: the sampled tokens are on the host after it."""

    def __init__(self, acceptance: Acceptance) -> None:
        self.acceptance = acceptance

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Any:
        """Return the result that is asked."""
        return args[0]

    def end(self, token: Any, args: Arguments, result: Any) -> None:
        """Join the correct drafts of each request, bonus excluded."""
        kept = correct_drafts(result)
        if kept is not None:
            self.acceptance.arrived(token, kept)


def marked_context(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Return the proposer's `set_forward_context`, in which each draft forward runs, with marks around it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        inner = original(*args, **kwargs)
        return inner if recorder.marks is None else _Marked(inner, recorder.marks)

    return call


class _Marked:
    """A context manager that stamps when it is entered and left."""

    def __init__(self, inner: Any, marks: Any) -> None:
        self._inner = inner
        self._marks = marks

    def __enter__(self) -> Any:
        entered = self._inner.__enter__()
        self._say("begin")
        return entered

    def __exit__(self, *error: Any) -> Any:
        self._say("end")
        return self._inner.__exit__(*error)

    def _say(self, what: str) -> None:
        try:
            getattr(self._marks, what)()
        except Exception:
            self._marks = None


def correct_drafts(output: Any) -> list[int] | None:
    """Return the correct drafts per request of a host-side output; None when it holds no token lists."""
    tokens = getattr(output, "sampled_token_ids", None)
    if not isinstance(tokens, list) or not tokens:
        return None
    return [max(0, len(one) - 1) for one in tokens]


def decode_drafts(scheduled: Any) -> int | None:
    """Return the drafts per request that a decode batch verifies, 0 without; None for other work."""
    tokens = scheduled.num_scheduled_tokens
    if not tokens or scheduled.scheduled_new_reqs:
        return None
    drafts = scheduled.scheduled_spec_decode_tokens
    most = 0
    for request, number in tokens.items():
        own = len(drafts.get(request, ()))
        if number != own + 1:
            return None
        most = max(most, own)
    return most


def describe(cycle: Cycle, scheduled: Any, drafts: int) -> None:
    """Write down what the scheduler sent: its context counts drafts under way as kept."""
    cycle.batch_size = len(scheduled.num_scheduled_tokens)
    cycle.num_steps, cycle.num_draft_tokens = drafts, drafts + 1
    computed = scheduled.scheduled_cached_reqs.num_computed_tokens
    if computed:
        cycle.context = round(sum(computed) / len(computed))


def step_count(runner: Any) -> int:
    """Return the drafts per request that the runner is set to; 0 without speculation."""
    for name in ("num_spec_tokens", "num_speculative_steps"):
        found = count(getattr(runner, name, None))
        if found is not None:
            return found
    return 0


def exchanges(args: Arguments) -> bool:
    """Say whether a group's call is a collective: a group of one never comes to it."""
    return True


def graph_wanted() -> bool:
    """Say whether a capture is of a whole forward: a piecewise one has a graph a layer."""
    context = sys.modules.get("vllm.forward_context")
    if context is None or not context.is_forward_context_available():
        return True
    return bool(context.get_forward_context().cudagraph_runtime_mode.name != "PIECEWISE")


def rank_of(original: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]) -> Rank:
    """Return the rank that a Worker is made for."""
    given = inspect.signature(original).bind_partial(*args, **kwargs).arguments
    config = given["vllm_config"]
    parallel = config.parallel_config
    tp_size = count(getattr(parallel, "tensor_parallel_size", None)) or 1
    pp_size = count(getattr(parallel, "pipeline_parallel_size", None)) or 1
    rank = count(given.get("rank")) or 0
    return Rank(
        tp_rank=rank % tp_size,
        dp_rank=count(getattr(parallel, "data_parallel_rank", None)) or 0,
        pp_rank=rank // tp_size % pp_size,
        arguments=lambda: arguments_of(config),
        roles=lambda: roles_of(config),
    )


def arguments_of(config: Any) -> dict[str, Any]:
    """Return the settings that matter."""
    parallel, model = config.parallel_config, config.model_config
    speculative = getattr(config, "speculative_config", None)
    steps = count(getattr(speculative, "num_speculative_tokens", None)) or 0
    found = {
        "tp_size": getattr(parallel, "tensor_parallel_size", None),
        "dp_size": getattr(parallel, "data_parallel_size", None),
        "pp_size": getattr(parallel, "pipeline_parallel_size", None),
        "model": getattr(model, "model", None),
        "draft_model": getattr(speculative, "model", None),
        "algorithm": getattr(speculative, "method", None),
        "num_steps": steps,
        "topk": 1,
        "num_draft_tokens": steps + 1,
        "draft_tp": getattr(speculative, "draft_tensor_parallel_size", None),
        "disable_cuda_graph": getattr(model, "enforce_eager", None),
        "overlap_schedule": getattr(getattr(config, "scheduler_config", None), "async_scheduling", None),
    }
    return {name: value for name, value in found.items() if isinstance(value, (str, int, bool))}


def roles_of(config: Any) -> Roles:
    """Return the roles that this server needs, and why one of them cannot be hooked."""
    speculative = getattr(config, "speculative_config", None)
    parallel = getattr(config, "parallel_config", None)
    ranks = count(getattr(parallel, "tensor_parallel_size", None)) or 1
    shared = ("collective",) if ranks > 1 else ()
    if speculative is None:
        return Roles(("cycle", "verify", "sample", *shared), {})
    roles = ("cycle", "verify", "sample", "draft", "acceptance", *shared)
    method = str(getattr(speculative, "method", ""))
    if not any(name in method for name in _DRAFT_MODELS):
        return Roles(roles, {"draft": f"failed: drafting by {method} is not hooked"})
    return Roles(roles, {})
