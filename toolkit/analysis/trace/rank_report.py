"""Phases of one rank over the cycles of one configuration, from its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from toolkit.analysis.statistics import median, spread
from toolkit.analysis.trace.cycles import Phase, TracedCycle
from toolkit.analysis.trace.intervals import busy_ns, clipped_busy_ns
from toolkit.analysis.trace.occurrences import occurrences_of
from toolkit.analysis.trace.phase_spans import phase_spans_ns
from toolkit.analysis.trace.releasing import releasing
from toolkit.analysis.trace.trace_view import PHASES, TraceView
from toolkit.schema.inspection import ClockReport, PhaseTime, RankReport
from toolkit.schema.trace import Kernels
from toolkit.units import NS_PER_US, PPM, us_from_ns


@dataclass(frozen=True, slots=True)
class RankTimes:
    """A rank's report, and per whole cycle: its time, GPU work in it, and work outside every phase (us)."""

    report: RankReport
    period_us: list[float]
    busy_us: list[float]
    unattributed_us: list[float]


def rank_times(
    view: TraceView,
    position: int,
    cycles: Sequence[TracedCycle],
    waits_us: dict[str, float],
    waiting_us: float | None,
    collectives_us: dict[str, float],
) -> RankTimes:
    """Describe the rank at one position of a view over cycles that follow each other.

    `waits_us` is the median wait in each phase, `waiting_us` the mean of all waits in a cycle, None if
    ranks could not be compared; `collectives_us` the median time in a phase's collectives, waits included.
    """
    trace = view.traces[position]
    kernels = trace.kernels
    phases = {
        name: _phase_time(
            name,
            kernels,
            cycles,
            _spans_us(view, name, position, cycles),
            waits_us.get(name),
            collectives_us.get(name),
        )
        for name in PHASES
    }
    windows = [
        _Window(kernels, this, following)
        for this, following in releasing(pairwise(cycles), kernels)
        if this.period_ns is not None and following.start_ns == this.start_ns + this.period_ns
    ]
    found = {name: time for name, time in phases.items() if time}
    gap = spread([us_from_ns(window.gap_ns) for window in windows])
    if gap:
        found["gap"] = PhaseTime(graph_us=gap)
    period, busy = sum(w.period_ns for w in windows), sum(w.busy_ns for w in windows)
    return RankTimes(
        report=RankReport(
            tp_rank=trace.tp_rank,
            gpu_busy_fraction=busy / period if period else None,
            gpu_work_fraction=_work_fraction(period, busy, len(windows), waiting_us),
            phases=found,
            clock=_clock(view, position),
        ),
        period_us=[us_from_ns(window.period_ns) for window in windows],
        busy_us=[us_from_ns(window.busy_ns) for window in windows],
        unattributed_us=[us_from_ns(window.unattributed_ns) for window in windows],
    )


def _clock(view: TraceView, position: int) -> ClockReport | None:
    clock = view.clocks[position]
    if clock is None or not clock.collectives:
        return None
    return ClockReport(
        offset_us=us_from_ns(clock.offset_ns),
        drift_ppm=clock.drift * PPM,
        spread_us=us_from_ns(clock.spread_ns),
        collectives=clock.collectives,
    )


def _work_fraction(period_ns: int, busy_ns: int, cycles: int, waiting_us: float | None) -> float | None:
    if not period_ns:
        return None
    waiting_ns = NS_PER_US * (waiting_us or 0.0) * cycles
    return max(0.0, (busy_ns - waiting_ns) / period_ns)


def _phase_time(
    name: str,
    kernels: Kernels,
    cycles: Sequence[TracedCycle],
    spans_us: Sequence[float],
    wait_us: float | None,
    collectives_us: float | None,
) -> PhaseTime | None:
    occurrences = [cycle.phases[name] for cycle in cycles if name in cycle.phases]
    if not occurrences:
        return None
    read = releasing(occurrences, kernels)
    return PhaseTime(
        graph_us=spread(spans_us),
        busy_us=median([us_from_ns(_busy_ns(kernels, phase)) for phase in read]),
        kernels=round(float(np.median([len(phase.kernels) for phase in occurrences]))),
        graph=all(phase.graph for phase in occurrences),
        wait_us=wait_us,
        collectives_us=collectives_us,
    )


def _spans_us(view: TraceView, name: str, position: int, cycles: Sequence[TracedCycle]) -> list[float]:
    occurrences = occurrences_of(view, name, position, cycles)
    spans = phase_spans_ns(occurrences, view.traces[position].kernels)
    return [us_from_ns(span) for span in spans]


def _busy_ns(kernels: Kernels, phase: Phase) -> int:
    start = kernels.start_ns[phase.kernels]
    return busy_ns(start, start + kernels.duration_ns[phase.kernels])


class _Window:
    """One whole cycle: from the start of a target forward to the next one's."""

    def __init__(self, kernels: Kernels, this: TracedCycle, following: TracedCycle) -> None:
        low, high = this.start_ns, following.start_ns
        inside = [phase for name, phase in this.phases.items() if name != "draft"]
        if "draft" in following.phases:
            inside.append(following.phases["draft"])
        starts = np.array([phase.start_ns for phase in inside], dtype=np.int64)
        ends = np.array([phase.end_ns for phase in inside], dtype=np.int64)
        first, last = np.searchsorted(kernels.start_ns, (low - _LONGEST_KERNEL_NS, high))
        start = kernels.start_ns[first:last]
        end = start + kernels.duration_ns[first:last]
        self.period_ns = high - low
        self.busy_ns = clipped_busy_ns(start, end, low, high)
        covered = clipped_busy_ns(starts, ends, low, high)
        together = clipped_busy_ns(np.concatenate((start, starts)), np.concatenate((end, ends)), low, high)
        self.gap_ns = self.period_ns - covered
        self.unattributed_ns = together - covered


_LONGEST_KERNEL_NS = 100_000_000  # how far before a window a kernel that reaches into it may start
