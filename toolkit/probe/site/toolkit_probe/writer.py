"""The writer's thread: asks which stamps are done, reads graphs of sampled cycles, writes lines.

It shares the interpreter's lock with the engine, so while cycles are being recorded it does what cannot wait:
it reads the graphs of sampled cycles, seldom. Lines are written when the recording is over or when many wait,
in slices of a few cycles with a sleep between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from .complaints import complain
from .event_set import (
    AGAIN,
    ENDED,
    NOT_PASSED,
    TOO_LONG,
    EventSet,
    Reading,
    fits_stage,
    read_sets,
    unreadable,
)
from .in_graph import InGraph
from .recording import Cycle, Recording
from .spans_file import SpansFile, cycle_line

_IDLE_S = 0.025  # between two looks
_HURRY_S = 0.002  # while a sampled cycle is to be read whose events every replay records again
_BACKLOG = 1024  # finished cycles that wait for the end of the recording; more are written meanwhile
_SLICE = 4  # cycles resolved before the interpreter's lock is offered again
_PAUSE_S = 0.001
_READ_FOR_NS = 200_000_000  # after its end, until a sampled cycle counts as unread
_COUNTS_FOR_NS = 3_000_000_000  # after its end, until a cycle is written without acceptance
_COUNTS_AT_END_NS = 500_000_000  # the same, once the recording has been stopped
_COUNTS_CYCLES = 16  # or that many later cycles
_LOST_NS = 20_000_000_000  # a stamp that is not done by then never is


class Writer(threading.Thread):
    """Drains one recording into its file until `finish` or the recording is full and empty."""

    def __init__(self, recording: Recording, spans: SpansFile, in_graph: InGraph) -> None:
        super().__init__(name="toolkit-probe-writer", daemon=True)
        self.recorded = 0
        self.spans = spans
        self._recording = recording
        self._in_graph = in_graph
        self._leave_ns: int | None = None
        self._asked_ns = 0
        self._adopted = False
        self._sampled: list[Cycle] = []  # cycles whose graphs are still to be read
        self._last: dict[str, str] = {}  # by phase: why it was not read when it was last asked

    def finish(self, seconds: float) -> None:
        """Write what is finished, for at most `seconds`, then close the file."""
        self._asked_ns = time.monotonic_ns()
        self._leave_ns = self._asked_ns + int(seconds * 1e9)
        self._recording.wake.set()
        if self.is_alive():
            self.join(seconds + 2)

    def run(self) -> None:
        """Look, write, sleep."""
        try:
            while not self._over():
                self._recording.wake.wait(self._pace_s())
                self._recording.wake.clear()
                self._look()
        except Exception as error:
            complain("writing spans", error)
        finally:
            self._close()

    def _pace_s(self) -> float:
        return _HURRY_S if self._sampled and self._in_graph.always_on else _IDLE_S

    def _over(self) -> bool:
        recording = self._recording
        left = recording.finished or recording.sampling or self._sampled
        if self._leave_ns is None:
            return recording.over() and not left
        return not left or time.monotonic_ns() >= self._leave_ns

    def _look(self) -> None:
        if not self._adopted and self._recording.clock is not None:
            self._adopted = True
            self._recording.clock.adopt()
            self._in_graph.adopt()
        if self._adopted:
            self._in_graph.work()
        self._read_graphs()
        while self._due() and self._resolve_slice():
            time.sleep(_PAUSE_S)
            self._read_graphs()

    def _due(self) -> bool:
        """Say whether lines are to be written now."""
        recording = self._recording
        return self._leave_ns is not None or recording.over() or len(recording.finished) > _BACKLOG

    def _resolve_slice(self) -> bool:
        """Write up to a slice of cycles; say whether there may be more."""
        finished, lines = self._recording.finished, []
        for _ in range(_SLICE):
            if not finished:
                break
            line = self._line(finished[0])
            if line is None:
                break
            finished.popleft()
            lines.append(line)
        lines = [line for line in lines if line]
        if lines:
            self.spans.write(lines)
            self.recorded += len(lines)
        return len(lines) == _SLICE

    def _line(self, cycle: Cycle) -> str | None:
        """Return the cycle's line; None while something of it is to come; empty when it is lost."""
        age_ns = time.monotonic_ns() - cycle.finished_ns
        with self._in_graph.lock:
            if self._in_graph.capturing:
                return None
            if not self._passed(cycle):
                if age_ns < _LOST_NS:
                    return None
                self._recording.dropped += 1
                return ""
            if cycle in self._sampled or cycle in self._recording.sampling:
                return None
            if cycle.awaits and cycle.correct is None and not self._late(age_ns):
                return None
            return cycle_line(cycle, self._stage_us(cycle))

    def _passed(self, cycle: Cycle) -> bool:
        clock = self._recording.clock
        if clock is None:
            return False
        return not cycle.stages or clock.done(cycle.stages[-1][2])  # one stream: the last one is the latest

    def _late(self, age_ns: int) -> bool:
        leaving = self._leave_ns is not None and time.monotonic_ns() > self._asked_ns + _COUNTS_AT_END_NS
        return leaving or age_ns > _COUNTS_FOR_NS or len(self._recording.finished) > _COUNTS_CYCLES

    def _stage_us(self, cycle: Cycle) -> dict[str, float | None]:
        """Return the phases' times and give the stamps back."""
        clock: Any = self._recording.clock
        found: dict[str, float | None] = {}
        for phase, start, end in cycle.stages:
            found[phase] = round(clock.passed_us(start, end) + (found.get(phase) or 0.0), 3)
            clock.free(start)
            clock.free(end)
        self._read_marks(cycle)
        return found

    def _read_marks(self, cycle: Cycle) -> None:
        """Read the stamps around eager draft forwards and collectives, and give them back."""
        clock: Any = self._recording.clock
        steps = [clock.span_us(start, end) for start, end in cycle.marks]
        if steps and cycle.steps is None and None not in steps:
            cycle.steps = steps
        for phase, start, end in cycle.collective_marks:
            span = clock.span_us(start, end)
            if span is not None:
                cycle.collectives.setdefault(phase, []).append(span)
        for start, end in (*cycle.marks, *(pair for _, *pair in cycle.collective_marks)):
            clock.free(start)
            clock.free(end)

    def _read_graphs(self) -> None:
        """Try to read the graphs of each sampled cycle whose phases are passed."""
        while self._recording.sampling:
            self._sampled.append(self._recording.sampling.popleft())
        kept = []
        for cycle in self._sampled:
            with self._in_graph.lock:
                if self._in_graph.capturing or self._unread(cycle):
                    kept.append(cycle)
                else:
                    self._settle(cycle)
        self._sampled = kept

    def _settle(self, cycle: Cycle) -> None:
        cycle.settled = True
        for phase, why in cycle.refused.items():
            self._recording.note_unread(phase, why)
        if any(self._had_events(cycle, phase) for phase in cycle.refused):
            self._recording.unread += 1

    def _had_events(self, cycle: Cycle, phase: str) -> bool:
        return all(isinstance(events, EventSet) for name, events in cycle.graphs if name == phase)

    def _unread(self, cycle: Cycle) -> bool:
        """Say whether a graph of the cycle is still to be read; give up when it has been overwritten."""
        if cycle.finished_ns < 0:
            return False
        waiting = self._read(cycle)
        if not cycle.finished_ns:
            return True
        age_ns = time.monotonic_ns() - cycle.finished_ns
        if waiting and age_ns > _READ_FOR_NS and (self._passed(cycle) or age_ns > _LOST_NS):
            _give_up(cycle, self._last)
            return False
        return waiting

    def _read(self, cycle: Cycle) -> bool:
        """Read each phase that has passed and is not read yet; say whether one is left."""
        clock: Any = self._recording.clock
        left = False
        for phase, start, end in list(cycle.stages):
            if phase in cycle.read or phase in cycle.refused:
                continue
            sets = [events for name, events in list(cycle.graphs) if name == phase]
            if not sets:
                continue
            if not clock.done(end):
                left, self._last[phase] = True, NOT_PASSED
                continue
            reading = _reading(cycle, phase, sets)
            if isinstance(reading, Reading):
                self._believe(cycle, phase, reading, clock.span_us(start, end))
            elif reading in (unreadable(sets), cycle.caught.get(phase), AGAIN):
                cycle.refused[phase] = reading
            else:
                left, self._last[phase] = True, reading
        return left

    def _believe(self, cycle: Cycle, phase: str, reading: Reading, stage_us: float | None) -> None:
        if not fits_stage(reading, stage_us):
            cycle.refused[phase] = TOO_LONG
            return
        cycle.read.add(phase)
        if reading.whole:
            cycle.readings[phase] = reading.graph_us
        if phase == "draft" and reading.steps_us:
            cycle.steps = list(reading.steps_us)
        if reading.collectives_us:
            cycle.collectives[phase] = list(reading.collectives_us)

    def _close(self) -> None:
        self._recording.full = True
        self._recording.closed = True
        self._recording.dropped += len(self._recording.finished)
        self._recording.finished.clear()
        for cycle in (*self._sampled, *self._recording.sampling):
            _give_up(cycle, {})
            self._settle(cycle)
        self._recording.sampling.clear()
        try:
            self.spans.close(self._recording.dropped)
        except Exception as error:
            complain("closing spans", error)


def _give_up(cycle: Cycle, last: dict[str, str]) -> None:
    """Say for each phase that ran a graph and is not read why; `last` is what was said when it was asked."""
    for phase in {name for name, _ in list(cycle.graphs)} - cycle.read:
        cycle.refused.setdefault(phase, last.get(phase, ENDED))


def _reading(cycle: Cycle, phase: str, sets: Sequence[EventSet | str]) -> Reading | str:
    """Return the phase's reading, which is of this very cycle, or why there is none (yet)."""
    why = unreadable(sets)
    if why is not None:
        return why
    own = [one for one in sets if isinstance(one, EventSet)]
    # A copy's events are not recorded again before they are read: one look is enough.
    found = cycle.caught.get(phase) or read_sets(own, times=1 if own[0].view else 2)
    if phase not in cycle.caught and any(one.cycle is not cycle for one in own):
        return AGAIN  # meanwhile, or before
    return cycle.caught.get(phase) or found  # caught meanwhile by the thread that launches
