"""How long each occurrence of a phase took, also where its first or last kernels were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.analysis.trace.phase_graphs import Graph, Placed
from toolkit.schema.trace import Kernels

_USUAL = 0.8  # share of occurrences with a kernel at a place, for a missing one to have been lost
_MOST_SAMPLES = 64  # occurrences that tell how far before the end a kernel usually ends


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A phase's kernels in one cycle; what else tells when it began and ended, None where nothing does.

    `call_ns`: when the host launched it. `others_end_ns`: when the other ranks left its last collective, if
    that is its last kernel and was lost.
    """

    placed: Placed
    call_ns: int | None = None
    others_end_ns: int | None = None


def phase_spans_ns(occurrences: Sequence[Occurrence], kernels: Kernels) -> list[int]:
    """Return ns from the first kernel's start to the last one's end, of each occurrence on one rank.

    A replay that lost its first or last kernels would be too short: what lies before and after those that
    were recorded is then taken from the other replays of its graph. It began as long before the next kernel,
    after the work before it, or after its launch, as they did: what varies least of the three tells it.
    """
    by_graph: dict[int, list[Occurrence]] = {}
    for one in occurrences:
        by_graph.setdefault(id(one.placed.graph), []).append(one)
    ends = {key: _Ends(own[0].placed.graph, own, kernels) for key, own in by_graph.items()}
    return [ends[id(one.placed.graph)].span_ns(one) for one in occurrences]


class _Ends:
    """The first and last places of one graph, and what usually lies outside a place."""

    def __init__(self, graph: Graph, occurrences: Sequence[Occurrence], kernels: Kernels) -> None:
        self._last = len(graph.usual) - 1
        self._kernels = kernels
        self._known: dict[tuple[int, bool], tuple[float, float] | None] = {}
        starting = [one for one in occurrences if one.placed.kernel_at(0) >= 0]
        ending = [one for one in occurrences if one.placed.kernel_at(self._last) >= 0]
        self._starting = starting if len(starting) >= _USUAL * len(occurrences) else []
        self._ending = ending if len(ending) >= _USUAL * len(occurrences) else []
        starts = [(one, one.placed.phase.start_ns) for one in self._starting[:_MOST_SAMPLES]]
        self._latency = _usual([start - one.call_ns for one, start in starts if one.call_ns is not None])
        pauses: dict[int, list[int]] = {}
        for one, start in starts:
            name, end = self._work_before(one)
            pauses.setdefault(name, []).append(start - end)
        self._pause = {name: _usual(times) for name, times in pauses.items() if len(times) > 1}

    def span_ns(self, one: Occurrence) -> int:
        """Return how long an occurrence was, with what was lost at its ends."""
        start, end = one.placed.phase.start_ns, one.placed.phase.end_ns
        places = one.placed.places
        if len(places):
            first, last = int(places[0]), int(places[-1])
            start = min(start, self._start_ns(one, first)) if first else start
            end = max(end, self._end_ns(one, last)) if last < self._last else end
        return end - start

    def _start_ns(self, one: Occurrence, first: int) -> int:
        """Return when an occurrence began of which `first` is the first place that was recorded."""
        start = one.placed.phase.start_ns
        told = [(self._outside(first, leading=True), start, -1)]
        if one.call_ns is not None:
            told.append((self._latency, one.call_ns, 1))
        name, end = self._work_before(one)
        told.append((self._pause.get(name), end, 1))
        known = [(usual[1], moment + sign * round(usual[0])) for usual, moment, sign in told if usual]
        return min(known)[1] if known else start

    def _work_before(self, one: Occurrence) -> tuple[int, int]:
        """Return name and end of the kernel before an occurrence, -1 where there is none."""
        at = int(one.placed.phase.kernels.min()) - 1
        if at < 0:
            return -1, -1
        return int(self._kernels.name[at]), int(self._kernels.start_ns[at] + self._kernels.duration_ns[at])

    def _end_ns(self, one: Occurrence, last: int) -> int:
        if one.others_end_ns is not None:
            return one.others_end_ns
        after = self._outside(last, leading=False)
        return one.placed.phase.end_ns + (max(0, round(after[0])) if after else 0)

    def _outside(self, place: int, leading: bool) -> tuple[float, float] | None:
        """Return the usual time from the phase's start to that of a place, or from its end to the phase's."""
        key = (place, leading)
        if key not in self._known:
            others = (self._starting if leading else self._ending)[:_MOST_SAMPLES]
            self._known[key] = _usual(
                [
                    self._one_outside(one.placed, kernel, leading)
                    for one in others
                    if (kernel := one.placed.kernel_at(place)) >= 0
                ]
            )
        return self._known[key]

    def _one_outside(self, one: Placed, kernel: int, leading: bool) -> int:
        start = int(self._kernels.start_ns[kernel])
        if leading:
            return start - one.phase.start_ns
        return one.phase.end_ns - start - int(self._kernels.duration_ns[kernel])


def _usual(times: Sequence[int]) -> tuple[float, float] | None:
    """Return the median of times and how far they lie from it; None without any."""
    if not times:
        return None
    middle = float(np.median(times))
    return middle, float(np.median(np.abs(np.array(times) - middle)))
