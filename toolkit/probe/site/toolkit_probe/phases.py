"""Hooks that every engine shares: a phase, a replay of known padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .guard import Arguments
from .recorder import Recorder
from .recording import Cycle


class Phase:
    """Stamps before and after a call that is one phase of the open cycle."""

    def __init__(self, recorder: Recorder, phase: str) -> None:
        self.recorder = recorder
        self.phase = phase

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> Cycle | None:
        """Open the phase; None when no cycle is open, or another phase is."""
        return self.recorder.begin_stage(self.phase)

    def end(self, token: Cycle, args: Arguments, result: Any) -> None:
        """Close it."""
        self.recorder.end_stage(token)


def replay_note(
    recorder: Recorder, padded: Callable[[Arguments], int | None], whole: bool | None
) -> Callable[[Arguments], None]:
    """Return what says, behind a replay, that a graph ran in the open phase.

    `padded` finds its batch size. `whole` is None for a graph in pieces, which is neither a graph nor eager.
    """

    def note(args: Arguments) -> None:
        cycle = recorder.cycle
        if cycle is not None and cycle.open_stage is not None:
            recorder.replayed(padded(args), whole)

    return note


class OtherWork:
    """Work between two cycles, such as a prefill: it leaves a gap in the cycles' numbers."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self, args: Arguments, kwargs: dict[str, Any]) -> None:
        """Leave the gap."""
        self.recorder.other_work()

    def end(self, token: Any, args: Arguments, result: Any) -> None:
        """Never called: `begin` gives no token."""


def count(value: Any) -> int | None:
    """Return a whole number that costs no wait for a GPU; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
