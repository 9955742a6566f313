"""How long each occurrence of a phase took, also where its first or last kernels were lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.analysis.trace.phase_graphs import Graph, Placed
from toolkit.schema.trace import Kernels

_USUAL = 0.8  # share of occurrences with a kernel at a place, for a missing one to have been lost
_MOST_SAMPLES = 64  # occurrences that tell how far before the end a kernel usually ends


def phase_spans_ns(placed: Sequence[Placed], kernels: Kernels) -> list[int]:
    """Return ns from the first kernel's start to the last one's end, of each occurrence on one rank.

    A replay that lost its first or last kernels would be too short: what lies before and after those that
    were recorded is then taken from the other replays of its graph.
    """
    by_graph: dict[int, list[Placed]] = {}
    for one in placed:
        by_graph.setdefault(id(one.graph), []).append(one)
    ends = {key: _Ends(own[0].graph, own, kernels) for key, own in by_graph.items()}
    return [one.phase.end_ns - one.phase.start_ns + ends[id(one.graph)].lost_ns(one) for one in placed]


class _Ends:
    """The first and last places of one graph, and what usually lies outside a place."""

    def __init__(self, graph: Graph, placed: Sequence[Placed], kernels: Kernels) -> None:
        self._last = len(graph.usual) - 1
        self._kernels = kernels
        self._known: dict[tuple[int, bool], int] = {}
        starting = [one for one in placed if one.kernel_at(0) >= 0]
        ending = [one for one in placed if one.kernel_at(self._last) >= 0]
        self._starting = starting if len(starting) >= _USUAL * len(placed) else []
        self._ending = ending if len(ending) >= _USUAL * len(placed) else []

    def lost_ns(self, one: Placed) -> int:
        """Return by how much an occurrence was longer than what was recorded of it."""
        if not len(one.places):
            return 0
        first, last = int(one.places[0]), int(one.places[-1])
        before = self._outside(first, leading=True) if first else 0
        after = self._outside(last, leading=False) if last < self._last else 0
        return before + after

    def _outside(self, place: int, leading: bool) -> int:
        """Return the usual time from the phase's start to that of a place, or from its end to the phase's."""
        key = (place, leading)
        if key not in self._known:
            others = (self._starting if leading else self._ending)[:_MOST_SAMPLES]
            times = [
                self._one_outside(one, kernel, leading)
                for one in others
                if (kernel := one.kernel_at(place)) >= 0
            ]
            self._known[key] = max(0, round(float(np.median(times)))) if times else 0
        return self._known[key]

    def _one_outside(self, one: Placed, kernel: int, leading: bool) -> int:
        start = int(self._kernels.start_ns[kernel])
        if leading:
            return start - one.phase.start_ns
        return one.phase.end_ns - start - int(self._kernels.duration_ns[kernel])
