"""Collectives of one phase matched over ranks: the same place of the same graph, in the same cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.clocks import RankClock
from toolkit.analysis.trace.cycles import TracedCycle
from toolkit.analysis.trace.kernel_names import KernelKind
from toolkit.analysis.trace.phase_graphs import Graph, PhaseGraphs, Placed
from toolkit.analysis.trace.releasing import releasing
from toolkit.schema.trace import RankTrace

Numbers = NDArray[np.float64]

_TOGETHER_NS = 50_000  # within which all ranks leave a collective; recorded ones do within 4 us
_SPREADS = 10.0  # or within so many spreads of the clocks
_END_TOGETHER = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
_MOST_SAMPLES = 64  # occurrences whose gaps tell those around a lost kernel


@dataclass(frozen=True, slots=True)
class Matched:
    """Cycles of one phase in which all ranks replayed graphs with the same collectives.

    `durations_ns` and `ends_ns` are by (rank, cycle, collective), NaN where none was recorded; ends are in
    ns after `base_ns`. `sample[rank][collective]` is the kernel of one, -1 if none was recorded.
    """

    cycles: tuple[int, ...]  # positions among the cycles given
    kinds: tuple[KernelKind, ...]
    durations_ns: Numbers
    ends_ns: Numbers
    base_ns: int
    sample: NDArray[np.int64]
    placed: tuple[tuple[Placed, ...], ...]  # by rank and cycle


def matched_collectives(
    graphs: PhaseGraphs,
    ranks: Sequence[int],
    traces: Sequence[RankTrace],
    cycles: Sequence[tuple[TracedCycle, ...]],
) -> list[Matched]:
    """Return the collectives of a phase, a part for each list of collectives that graphs hold, largest first.

    `ranks` are positions in `graphs`, `traces` the traces at these positions; each of `cycles` has one
    cycle for each of them. Cycles in which ranks replayed graphs with other collectives are in no part.
    """
    parts: dict[int, list[tuple[int, tuple[Placed, ...]]]] = {}
    numbers = _Numbers()
    for position, cycle in enumerate(cycles):
        found = [graphs.of(rank, own) for rank, own in zip(ranks, cycle, strict=True)]
        placed = tuple(one for one in found if one is not None)
        kinds = {numbers.of(one.graph) for one in placed}
        if len(placed) == len(ranks) and len(kinds) == 1:
            parts.setdefault(kinds.pop(), []).append((position, placed))
    ordered = sorted(parts.values(), key=lambda rows: -len(rows))
    lists = [(rows[0][1][0].graph.collectives, rows) for rows in ordered]
    return [_matched(kinds, traces, rows) for kinds, rows in lists if kinds]


class _Numbers:
    """A number for each list of collectives; by graph, as hashing hundreds of them anew takes long."""

    def __init__(self) -> None:
        self._by_kinds: dict[tuple[KernelKind, ...], int] = {}
        self._by_graph: dict[int, int] = {}

    def of(self, graph: Graph) -> int:
        if id(graph) not in self._by_graph:
            number = self._by_kinds.setdefault(graph.collectives, len(self._by_kinds))
            self._by_graph[id(graph)] = number
        return self._by_graph[id(graph)]


def _matched(
    kinds: tuple[KernelKind, ...],
    traces: Sequence[RankTrace],
    rows: Sequence[tuple[int, tuple[Placed, ...]]],
) -> Matched:
    shape = (len(traces), len(rows), len(kinds))
    durations, ends = np.full(shape, np.nan), np.full(shape, np.nan)
    sample = np.full((len(traces), len(kinds)), -1, dtype=np.int64)
    base = min(placed.phase.start_ns for placed in rows[0][1])
    for rank, trace in enumerate(traces):
        kernels = trace.kernels
        own = [by_rank[rank] for _, by_rank in rows]
        for row, placed in enumerate(releasing(own, kernels)):
            slots = placed.graph.slot[placed.places]
            known = slots >= 0
            mine, slots = placed.kernels[known], slots[known]
            lasted = kernels.duration_ns[mine]
            durations[rank, row, slots] = lasted
            ends[rank, row, slots] = kernels.start_ns[mine] + lasted - base
            sample[rank, slots] = mine
    by_rank_rows = tuple(tuple(placed[rank] for _, placed in rows) for rank in range(len(traces)))
    return Matched(tuple(at for at, _ in rows), kinds, durations, ends, base, sample, by_rank_rows)


def ended_together(
    found: Matched, clocks: Sequence[RankClock | None], peers: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return by (cycle, collective) whether ranks left it together, as far as their clocks can tell.

    Of collectives whose ranks need each other's share only; `peers[rank, collective]` says whether a rank
    takes part in that of the first rank.
    """
    together = np.ones(found.durations_ns.shape[1:], dtype=bool)
    for rank, clock in enumerate(clocks):
        if clock is None or not rank:
            continue
        moment = found.ends_ns[rank] + (found.base_ns - clock.at_ns)
        ahead = found.ends_ns[rank] - found.ends_ns[0] - clock.offset_ns - clock.drift * moment
        far = np.abs(ahead) > max(_TOGETHER_NS, _SPREADS * clock.spread_ns)
        together &= ~(far & peers[rank])  # a comparison with NaN, where one was lost, is false
    return together


def ends_together(kind: KernelKind) -> bool:
    """Return whether no rank can leave a collective before all have come."""
    return kind.op in _END_TOGETHER


def filled(found: Matched, traces: Sequence[RankTrace]) -> Numbers:
    """Return durations with those of lost collectives put in: the hole that each left, less the usual gaps.

    Where a neighbour was lost too it is the median of that collective on that rank.
    """
    durations = found.durations_ns.copy()
    for rank, trace in enumerate(traces):
        lost_cycles, lost_slots = np.nonzero(np.isnan(found.durations_ns[rank]))
        slack: dict[int, float] = {}
        for row, slot in zip(lost_cycles.tolist(), lost_slots.tolist(), strict=True):
            if slot not in slack:
                slack[slot] = _usual_gaps_ns(found, trace, rank, slot)
            hole = _hole_ns(trace, found.placed[rank][row], slot)
            durations[rank, row, slot] = np.maximum(0.0, hole - slack[slot])
        usual = _medians(durations[rank])
        durations[rank] = np.where(np.isnan(durations[rank]), usual, durations[rank])
    return durations


def _medians(durations: Numbers) -> Numbers:
    """Return the median of each collective over cycles, NaN for one that was never recorded."""
    known = np.isfinite(durations).any(axis=0)
    medians = np.full(durations.shape[1], np.nan)
    if known.any():
        medians[known] = np.nanmedian(durations[:, known], axis=0)
    return medians


def _hole_ns(trace: RankTrace, placed: Placed, slot: int) -> float:
    """Return the time between the kernels before and after a collective's place."""
    place = int(np.searchsorted(np.cumsum(placed.graph.slot >= 0), slot + 1))
    before, after = placed.kernel_at(place - 1), placed.kernel_at(place + 1)
    if before < 0 or after < 0:
        return np.nan
    kernels = trace.kernels
    return float(kernels.start_ns[after] - kernels.start_ns[before] - kernels.duration_ns[before])


def _usual_gaps_ns(found: Matched, trace: RankTrace, rank: int, slot: int) -> float:
    """Return how much longer than the collective the time between its neighbours is, median over cycles."""
    recorded = np.flatnonzero(np.isfinite(found.durations_ns[rank, :, slot]))[:_MOST_SAMPLES]
    gaps = [
        _hole_ns(trace, found.placed[rank][row], slot) - found.durations_ns[rank, row, slot]
        for row in recorded.tolist()
    ]
    finite = [gap for gap in gaps if np.isfinite(gap)]
    return float(np.median(finite)) if finite else np.nan
