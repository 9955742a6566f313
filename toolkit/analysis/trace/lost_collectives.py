"""How long collectives took that the profiler lost: by the hole they left, and by when others left them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.analysis.trace.clocks import RankClock
from toolkit.analysis.trace.matched import Matched, Numbers
from toolkit.schema.trace import RankTrace

_MOST_SAMPLES = 64  # occurrences that tell what usually lies between a collective and its neighbours
_FEWEST_SAMPLES = 2  # of which one estimate can be said to be nearer than another


def others_ends_ns(
    found: Matched, clocks: Sequence[RankClock | None], peers: np.ndarray, rank: int
) -> Numbers:
    """Return when the other ranks left each collective, by (cycle, collective), in ns on this rank's clock.

    Like `Matched.ends_ns`, after `base_ns`; NaN where no rank recorded one that ends together with this
    rank's. `peers` says by (rank, collective) which take part in that of the first rank.
    """
    own = clocks[rank]
    shape = found.ends_ns.shape
    if own is None:
        return np.full(shape[1:], np.nan)
    others = np.full(shape, np.nan)
    for other, clock in enumerate(clocks):
        if other == rank or clock is None:
            continue
        together = peers[other] & peers[rank]
        ends = found.ends_ns[other]
        here = ends - _ahead(clock, ends, found) + _ahead(own, ends, found)
        others[other] = np.where(together, here, np.nan)
    return _medians_over(others)


def _ahead(clock: RankClock, moments: Numbers, found: Matched) -> Numbers:
    """Return by how much a clock is ahead of the reference's."""
    return np.asarray(clock.offset_ns + clock.drift * (moments + (found.base_ns - clock.at_ns)))


def _medians_over(values: Numbers) -> Numbers:
    """Return medians over the first axis, NaN where nothing is known."""
    known = np.isfinite(values).any(axis=0)
    medians = np.full(values.shape[1:], np.nan)
    if known.any():
        medians[known] = np.nanmedian(values[:, known], axis=0)
    return medians


def told_durations(
    found: Matched, traces: Sequence[RankTrace], clocks: Sequence[RankClock | None], peers: np.ndarray
) -> Numbers:
    """Return the durations, those of lost collectives put in where something tells them, else NaN."""
    durations = found.durations_ns
    for rank, trace in enumerate(traces):
        lost = np.nonzero(np.isnan(found.durations_ns[rank]))
        if not len(lost[0]):
            continue
        durations = durations if durations is not found.durations_ns else durations.copy()
        holes = _Holes(found, trace, rank, others_ends_ns(found, clocks, peers, rank))
        for row, slot in zip(lost[0].tolist(), lost[1].tolist(), strict=True):
            durations[rank, row, slot] = holes.duration_ns(row, slot)
    return durations


def with_usual(durations: Numbers) -> Numbers:
    """Return durations with those that nothing tells put in as the median of that collective on that rank."""
    if np.isfinite(durations).all():
        return durations
    usual = np.array([_medians_over(of_rank) for of_rank in durations])
    return np.where(np.isnan(durations), usual[:, np.newaxis, :], durations)


class _Holes:
    """What kernels around lost collectives of one rank, and the other ranks, say of their durations."""

    def __init__(self, found: Matched, trace: RankTrace, rank: int, others_ns: Numbers) -> None:
        self._found = found
        self._kernels = trace.kernels
        self._rank = rank
        self._others = others_ns
        self._usual: dict[tuple[int, int, int, int], tuple[bool, float]] = {}
        self._places: dict[int, list[int]] = {}

    def duration_ns(self, row: int, slot: int) -> float:
        """Return the duration of a collective that was lost in a cycle; NaN where nothing tells it.

        Of the next kernel's start and the others' end the one that usually is nearer tells the end.
        """
        placed = self._found.placed[self._rank][row]
        at = int(np.searchsorted(placed.places, self._place(row, slot)))
        if not at:
            return np.nan  # nobody knows when it began
        before = int(placed.places[at - 1])
        after = int(placed.places[at]) if at < len(placed.places) else -1
        by_next, usual = self._usually(row, slot, before, after)
        measured = self._measured(row, slot, before, after)[0 if by_next else 1]
        return float(max(0.0, measured - usual)) if np.isfinite(measured - usual) else np.nan

    def _place(self, row: int, slot: int) -> int:
        graph = self._found.placed[self._rank][row].graph
        if id(graph) not in self._places:
            self._places[id(graph)] = np.flatnonzero(graph.slot >= 0).tolist()
        return self._places[id(graph)][slot]

    def _measured(self, row: int, slot: int, before: int, after: int) -> tuple[float, float]:
        """Return ns from the end of the kernel before to the next one's start, and to the others' end."""
        placed = self._found.placed[self._rank][row]
        first, last = placed.kernel_at(before), placed.kernel_at(after) if after >= 0 else -1
        if first < 0:
            return np.nan, np.nan
        kernels = self._kernels
        began = int(kernels.start_ns[first] + kernels.duration_ns[first])
        by_next = float(kernels.start_ns[last] - began) if last >= 0 else np.nan
        return by_next, float(self._others[row, slot] - (began - self._found.base_ns))

    def _usually(self, row: int, slot: int, before: int, after: int) -> tuple[bool, float]:
        """Return whether the next kernel tells better than the others, and how much too long it is then."""
        key = (id(self._found.placed[self._rank][row].graph), slot, before, after)
        if key not in self._usual:
            own = self._found.durations_ns[self._rank, :, slot]
            rows = np.flatnonzero(np.isfinite(own))[:_MOST_SAMPLES].tolist()
            excess = np.array([self._measured(r, slot, before, after) for r in rows]).reshape(-1, 2)
            excess -= own[rows][:, np.newaxis]
            near = [_scatter(column[np.isfinite(column)]) for column in excess.T]
            by_next = near[0] <= near[1]
            usual = excess[:, 0 if by_next else 1]
            usual = usual[np.isfinite(usual)]
            self._usual[key] = by_next, float(np.median(usual)) if len(usual) else np.nan
        return self._usual[key]


def _scatter(values: Numbers) -> float:
    """Return how far values lie from their median, infinite for too few."""
    if len(values) < _FEWEST_SAMPLES:
        return np.inf if not len(values) else np.finfo(float).max
    return float(np.median(np.abs(values - np.median(values))))
