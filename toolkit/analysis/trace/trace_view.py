"""All ranks of one traced run, their cycles recognised and paired, their clocks aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.analysis.trace.clocks import RankClock, rank_clock, reference_clock
from toolkit.analysis.trace.cycles import RankCycles, rank_cycles
from toolkit.analysis.trace.matched import Matched, ends_together, matched_collectives
from toolkit.analysis.trace.phase_graphs import PhaseGraphs, phase_graphs
from toolkit.analysis.trace.ranks import CycleOnRanks, aligned_cycles
from toolkit.analysis.trace.releasing import give_back
from toolkit.schema.trace import RankTrace

PHASES = ("draft", "verify", "decode", "sample", "draft_extend")


@dataclass(frozen=True, slots=True)
class TraceView:
    """Traces and their cycles by rank, in rank order.

    `aligned` holds each cycle once, on the ranks at the positions `compared`: those that share a clock.
    `clocks` are by rank, to the first one compared; None where collectives do not tell.
    """

    traces: tuple[RankTrace, ...]
    ranks: tuple[RankCycles, ...]
    graphs: dict[str, PhaseGraphs]
    compared: tuple[int, ...]
    aligned: tuple[CycleOnRanks, ...]
    clocks: tuple[RankClock | None, ...]

    @property
    def speculative(self) -> bool:
        return any(rank.speculative for rank in self.ranks)

    @property
    def irregular(self) -> str | None:
        """Return what does not repeat, of the first rank where something does not."""
        for rank in self.ranks:
            if rank.irregular:
                return f"rank {rank.tp_rank}: {rank.irregular}"
        return None

    @property
    def apart(self) -> tuple[int, ...]:
        """Return the ranks that are compared with nobody."""
        return tuple(
            rank.tp_rank for position, rank in enumerate(self.ranks) if position not in self.compared
        )

    def has(self, name: str, cycle: CycleOnRanks) -> bool:
        """Return whether every rank has the phase in that cycle."""
        return all(name in own.phases for own in cycle)

    def matched(self, name: str, cycles: Sequence[CycleOnRanks]) -> list[Matched]:
        """Return the collectives of a phase in some of the aligned cycles, matched over ranks."""
        graphs = self.graphs.get(name)
        traces = [self.traces[at] for at in self.compared]
        return matched_collectives(graphs, self.compared, traces, cycles) if graphs else []


def trace_view(traces: Sequence[RankTrace]) -> TraceView | None:
    """Recognise the cycles of all ranks that hold kernels; None if none does."""
    kept = sorted((trace for trace in traces if len(trace.kernels)), key=lambda trace: trace.tp_rank)
    if not kept:
        return None
    ranks = tuple(rank_cycles(trace) for trace in kept)
    give_back()  # a record of every launch
    found = {name: phase_graphs(name, kept, [rank.cycles for rank in ranks]) for name in PHASES}
    graphs = {name: graph for name, graph in found.items() if graph}
    aligned = aligned_cycles(ranks)
    view = TraceView(tuple(kept), ranks, graphs, aligned.ranks, aligned.cycles, tuple(None for _ in ranks))
    clocks = _clocks(view)
    shared = [at for at in view.compared if (clock := clocks[at]) is None or clock.shared]
    if len(shared) < len(view.compared):
        aligned = aligned_cycles(ranks, tuple(shared))
        view = replace(view, compared=aligned.ranks, aligned=aligned.cycles)
        clocks = _clocks(view)
    return replace(view, clocks=clocks)


def _clocks(view: TraceView) -> tuple[RankClock | None, ...]:
    """Return the clock of each rank, by the ends of all collectives that end together."""
    clocks: list[RankClock | None] = [None] * len(view.traces)
    if not view.compared:
        return tuple(clocks)
    clocks[view.compared[0]] = reference_clock()
    if len(view.compared) == 1:
        return tuple(clocks)
    parts = [part for name in view.graphs for part in view.matched(name, view.aligned)]
    base = min((part.base_ns for part in parts), default=0)
    for row, at in enumerate(view.compared[1:], start=1):
        ends: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for part in parts:
            told = np.array([ends_together(kind) for kind in part.kinds])
            told &= _same_group(view, part, at)
            for mine, of_rank in zip(ends, (0, row), strict=True):
                mine.append((part.ends_ns[of_rank][:, told] + (part.base_ns - base)).ravel())
        if parts:
            clocks[at] = rank_clock(np.concatenate(ends[0]), np.concatenate(ends[1]), base)
    return tuple(clocks)


def _same_group(view: TraceView, part: Matched, at: int) -> np.ndarray:
    """Return which collectives a rank has in common with the first one, as far as their names say."""
    first, other = view.ranks[view.compared[0]].tp_rank, view.ranks[at].tp_rank
    sizes = [kind.group_size for kind in part.kinds]
    return np.array([size is None or first // size == other // size for size in sizes])
