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
