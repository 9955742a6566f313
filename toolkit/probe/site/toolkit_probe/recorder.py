"""The engine's side of recording: what hooks call. Asleep, each of them reads one flag and goes on."""

from __future__ import annotations

from typing import Any

from .recording import Cycle, Recording


class Recorder:
    """The open cycle and stage of the engine's thread.

    `awake` is the flag that hooks test. `marks` is set while draft forwards and collectives are to be
    stamped: during the capture of a graph, or in a phase of a sampled cycle, for what runs eagerly there.
    """

    __slots__ = ("awake", "collectives", "cycle", "marks", "recording")

    def __init__(self) -> None:
        self.awake = False
        self.recording: Recording | None = None
        self.cycle: Cycle | None = None
        self.marks: Any = None
        self.collectives = False  # whether one was ever seen in an eager phase

    def start(self, recording: Recording) -> None:
        """Wake up."""
        self.cycle = None
        self.recording = recording
        self.awake = True

    def stop(self) -> None:
        """Sleep again; a cycle that is still open ends in the queue of its own recording."""
        self.awake = False
        self.recording = None

    def begin_cycle(self) -> Cycle | None:
        """Open a cycle; a cycle that was left open is abandoned."""
        recording = self.recording
        if recording is None:
            return None
        if self.cycle is not None:
            self.abandon()
        self.cycle = recording.begin_cycle()
        if recording.full:
            self.awake = False
        return self.cycle

    def end_cycle(self) -> None:
        """Close the open cycle and hand it over."""
        cycle, self.cycle = self.cycle, None
        recording = self.recording
        if cycle is not None and recording is not None:
            recording.end_cycle(cycle)
            if recording.full:
                self.awake = False

    def abandon(self) -> None:
        """Give the open cycle up: the engine raised, or began another."""
        cycle, self.cycle = self.cycle, None
        self.marks = None
        if cycle is not None and self.recording is not None:
            self.recording.abandon(cycle)

    def other_work(self) -> None:
        """Note work between two cycles."""
        if self.recording is not None:
            self.recording.other_work()

    def begin_stage(self, phase: str) -> Cycle | None:
        """Stamp the start of a phase; None outside a cycle or inside another phase."""
        cycle, recording = self.cycle, self.recording
        if cycle is None or recording is None or cycle.open_stage is not None:
            return None
        clock: Any = recording.clock
        cycle.open_stage = phase
        cycle.graph.setdefault(phase, False)
        cycle.open_stamp = clock.stamp(cycle.place)
        if cycle.sampled:
            self.marks = EagerMarks(clock, cycle, phase, self)
        return cycle

    def end_stage(self, cycle: Cycle) -> None:
        """Stamp the end of the open phase."""
        self.marks = None
        recording = self.recording
        phase, start = cycle.open_stage, cycle.open_stamp
        cycle.open_stage = cycle.open_stamp = None
        if recording is not None and phase is not None:
            clock: Any = recording.clock
            cycle.stages.append((phase, start, clock.stamp(cycle.place)))

    def replayed(self, padded: int | None, whole: bool | None) -> None:
        """Note that a graph of `padded` requests ran in the open phase; `whole` is None for pieces."""
        cycle = self.cycle
        if cycle is None or cycle.open_stage is None:
            return
        cycle.graph[cycle.open_stage] = whole
        if padded is not None and (cycle.padded is None or cycle.open_stage in ("verify", "decode")):
            cycle.padded = padded


class EagerMarks:
    """Stamps around each draft forward of an eager draft stage, or, every other time, around collectives."""

    def __init__(self, clock: Any, cycle: Cycle, phase: str, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = clock
        self._cycle = cycle
        self._phase = phase
        self._collectives = recorder.collectives and cycle.turn % 2 == 1
        self._start: Any = None
        self._collective: Any = None
        self._depth = 0

    def begin(self) -> None:
        """Stamp the start of a forward."""
        if self._phase == "draft" and not self._collectives:
            self._start = self._clock.stamp(self._cycle.place)

    def end(self) -> None:
        """Stamp its end."""
        start, self._start = self._start, None
        if start is not None:
            self._cycle.marks.append((start, self._clock.stamp(self._cycle.place)))

    def begin_collective(self) -> None:
        """Stamp the start of a collective; one may call another."""
        self._recorder.collectives = True
        if self._collectives and self._depth == 0:
            self._collective = self._clock.stamp(self._cycle.place)
        self._depth += 1

    def end_collective(self) -> None:
        """Stamp its end."""
        self._depth -= 1
        if self._depth == 0 and self._collective is not None:
            start, self._collective = self._collective, None
            end = self._clock.stamp(self._cycle.place)
            self._cycle.collective_marks.append((self._phase, start, end))
