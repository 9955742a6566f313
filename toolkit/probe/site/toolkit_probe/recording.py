"""One recording: the cycles that the engine's thread hands over, in bounded memory.

The engine's thread calls `begin_cycle` ... `end_cycle`; the writer's thread takes what is finished. Lists and
deques are shared without locks: an append and a pop are atomic under the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from .clock import Clock, clock_of_process

WAITING = 4096  # finished cycles that may wait for the writer; more are dropped and counted
_OWING = 256  # cycles of a recording that are sampled in place of others
_REASONS = 40  # kinds of missing readings that are counted apart
_LONGEST_WAIT_NS = 2_000_000_000  # for the other ranks to be asked to record
_GRACE_NS = 1_000_000_000  # after the asked time, for the cycle that is running


class Cycle:
    """One cycle while it is being recorded. `stages` holds (phase, first stamp, last stamp)."""

    __slots__ = (
        "awaits",
        "batch_size",
        "caught",
        "collective_marks",
        "collectives",
        "context",
        "correct",
        "finished_ns",
        "graph",
        "graphs",
        "marks",
        "num_draft_tokens",
        "num_steps",
        "number",
        "open_stage",
        "open_stamp",
        "owed",
        "padded",
        "place",
        "read",
        "readings",
        "refused",
        "sampled",
        "settled",
        "stages",
        "steps",
        "t_ns",
        "turn",
    )

    def __init__(self, number: int, place: Any, sampled: bool, turn: int = 0) -> None:
        self.number = number
        self.t_ns = time.monotonic_ns()
        self.place = place  # the stream
        self.sampled = sampled
        self.turn = turn  # sampled cycles look at one kind of thing in turn
        self.batch_size: int | None = None
        self.padded: int | None = None
        self.context: int | None = None
        self.num_steps: int | None = None
        self.num_draft_tokens: int | None = None
        self.graph: dict[str, bool | None] = {}
        self.stages: list[tuple[str, Any, Any]] = []
        self.open_stage: str | None = None
        self.open_stamp: Any = None
        self.graphs: list[tuple[str, Any]] = []  # of a sampled cycle: (phase, events, or why none)
        self.owed = False  # a graph's copy was not ready yet: the next cycle is sampled instead
        self.settled = False  # its graphs are read or given up
        self.marks: list[tuple[Any, Any]] = []  # of a sampled eager cycle: stamps around each draft forward
        self.collective_marks: list[tuple[str, Any, Any]] = []  # the same around collectives, with the phase
        self.awaits = False  # acceptance counts will come
        self.correct: list[int] | None = None
        self.read: set[str] = set()  # phases whose graphs are read
        self.readings: dict[str, float] = {}  # by phase: the whole graph
        self.collectives: dict[str, list[float]] = {}  # by phase
        self.caught: dict[str, Any] = {}  # by phase: the engine's thread's own reading, or why there is none
        self.refused: dict[str, str] = {}  # by phase: why there is no reading
        self.steps: list[float] | None = None
        self.finished_ns = 0


class Recording:
    """Counts, limits and the queue between the engine's thread and the writer's."""

    def __init__(
        self,
        cycles: int | None,
        seconds: float | None,
        steps_every: int,
        max_cycles: int,
        steps: bool,
        not_before_ns: int = 0,
    ) -> None:
        self.clock: Clock | None = None
        self.finished: deque[Cycle] = deque()
        self.sampling: deque[Cycle] = deque()  # sampled cycles whose graphs are still to be read
        self.wake = threading.Event()
        self.full = False  # the asked number of cycles, or the time, is reached
        self.closed = False  # the writer has left
        self.dropped = 0
        self.taken = 0
        self.unread = 0  # sampled cycles whose graphs could not be read
        self.unread_why: dict[str, int] = {}  # phases of sampled cycles without a reading, by phase and why
        self._limit = max_cycles if cycles is None else min(cycles, max_cycles)
        self._cut = cycles is None or cycles > max_cycles  # more than the limit counts as dropped
        self._ends_ns = None if seconds is None else time.monotonic_ns() + int(seconds * 1e9)
        # of the host's clock, so that all ranks begin with one cycle; another clock's time is not waited for
        self._not_before_ns = not_before_ns if not_before_ns < time.monotonic_ns() + _LONGEST_WAIT_NS else 0
        self._every = max(1, steps_every)
        self._steps = steps
        self._number = 0
        self._owed = False  # the last cycle was to be sampled, and was not
        self._owing = _OWING

    def over(self) -> bool:
        """Say whether nothing more will be recorded, also when no cycle came to notice the time."""
        return self.full or (self._ends_ns is not None and time.monotonic_ns() > self._ends_ns + _GRACE_NS)

    def other_work(self) -> None:
        """Leave a gap in the cycle numbers: a prefill or an idle batch ran."""
        self._number += 1

    def begin_cycle(self) -> Cycle | None:
        """Return a new cycle; None when nothing more is to be recorded or the writer is behind."""
        number = self._number
        self._number = number + 1
        if self.full or (self._ends_ns is not None and time.monotonic_ns() >= self._ends_ns):
            self._end()
            return None
        if self.taken >= self._limit:
            if self._cut:
                self.dropped += 1
            else:
                self._end()
            return None
        if len(self.finished) >= WAITING:
            self.dropped += 1
            return None
        if self._not_before_ns and time.monotonic_ns() < self._not_before_ns:
            return None
        if self.clock is None:
            self.clock = clock_of_process()
        # By count, so that all ranks look at the same thing in the same cycle: events inside one rank's
        # graph hold the others up at every collective.
        sampled = self._steps and (self.taken % self._every == 0 or self._owed)
        turn = self.taken // self._every
        self._owed = False
        self.taken += 1
        cycle = Cycle(number, self.clock.place(), sampled, turn)
        if sampled:
            self.sampling.append(cycle)
        return cycle

    def end_cycle(self, cycle: Cycle) -> None:
        """Hand a cycle to the writer."""
        if cycle.owed and self._owing:
            self._owed = True
            self._owing -= 1
        cycle.finished_ns = time.monotonic_ns()
        self.finished.append(cycle)
        if not self._cut and self.taken >= self._limit:
            self._end()

    def abandon(self, cycle: Cycle) -> None:
        """Forget a cycle that the engine did not finish; it counts as dropped."""
        cycle.sampled = False
        cycle.finished_ns = -1
        self.dropped += 1

    def note_unread(self, phase: str, why: str) -> None:
        """Count a phase that could not be read."""
        said = f"{phase}: {why}"
        if said not in self.unread_why and len(self.unread_why) >= _REASONS:
            said = "other"
        self.unread_why[said] = self.unread_why.get(said, 0) + 1

    def _end(self) -> None:
        self.full = True
        self.wake.set()
