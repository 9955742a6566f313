"""The reference engine: its cycle says all that is asked, on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .acceptance import Acceptance
from .guard import Arguments, Hook
from .phases import OtherWork, Phase, count
from .rank import Rank, Roles
from .recorder import Recorder
from .recording import Cycle


def hooks(recorder: Recorder, acceptance: Acceptance) -> dict[str, Hook]:
    """Return the hook of each role that runs while awake."""
    return {
        "cycle": WholeCycle(recorder),
        "other": OtherWork(recorder),
        "draft": Phase(recorder, "draft"),
        "verify": Phase(recorder, "verify"),
        "sample": Phase(recorder, "sample"),
        "draft_extend": Phase(recorder, "draft_extend"),
        "decode": Phase(recorder, "decode"),
    }


def notes(recorder: Recorder) -> dict[str, Callable[[Arguments], None]]:
    """Return what is noted behind a call, by role: nothing."""
    return {}


def is_draft(args: Arguments) -> bool:
    """Say whether a draft forward belongs to the draft pass: the extend names the token that counts."""
    return len(args) < 5 or args[4] is None


def exchanges(args: Arguments) -> bool:
    """Say whether a collective has ranks to speak with."""
    return bool(args[1].size > 1)


def graph_wanted() -> bool:
    """Say whether a graph gets events: each is one phase."""
    return True


class WholeCycle:
    """`Cycle.run`, whose result holds the counts."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Open a cycle."""
        return self.recorder.begin_cycle()

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Write the result down and close."""
        token.batch_size = count(result.batch_size)
        token.padded = count(result.padded_batch_size)
        token.num_steps = count(result.num_steps)
        token.num_draft_tokens = result.num_steps + 1
        if result.contexts:
            token.context = round(sum(result.contexts) / len(result.contexts))
        if result.num_steps:
            token.correct = [int(kept) for kept in result.correct_drafts]
        token.graph.update(result.graph)
        self.recorder.end_cycle()


def rank_of(original: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]) -> Rank:
    """Return the rank that an Engine is made for."""
    given = inspect.signature(original).bind_partial(*args, **kwargs).arguments
    options = given["options"]
    return Rank(
        tp_rank=count(given.get("tp_rank")) or 0,
        dp_rank=0,
        pp_rank=0,
        arguments=lambda: arguments_of(options),
        roles=lambda: roles_of(options),
    )


def arguments_of(options: Any) -> dict[str, Any]:
    """Return the settings that matter."""
    steps = options.num_steps
    found = {
        "tp_size": options.tp,
        "draft_tp": options.draft_tp if steps else None,
        "num_steps": steps,
        "topk": 1 if steps else None,
        "num_draft_tokens": steps + 1,
        "model": options.target.name,
        "draft_model": options.draft.name if options.draft else None,
        "disable_cuda_graph": not options.cuda_graphs,
        "overlap_schedule": False,
        "acceptance": "simulated" if options.curve else "real",
    }
    return {name: value for name, value in found.items() if value is not None}


def roles_of(options: Any) -> Roles:
    """Return the roles that this server needs."""
    shared = ("collective",) if options.tp > 1 else ()
    if options.num_steps:
        return Roles(("cycle", "draft", "verify", "sample", "draft_extend", *shared), {})
    return Roles(("cycle", "decode", "sample", *shared), {})
