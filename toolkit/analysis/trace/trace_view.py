"""All ranks of one traced run, their cycles recognised and paired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.analysis.trace.cycles import RankCycles, TracedCycle, rank_cycles
from toolkit.analysis.trace.ranks import aligned_cycles
from toolkit.schema.trace import RankTrace


@dataclass(frozen=True, slots=True)
class TraceView:
    """Traces and their cycles by rank, in rank order; `aligned` holds each cycle once, on every rank."""

    traces: tuple[RankTrace, ...]
    ranks: tuple[RankCycles, ...]
    aligned: tuple[tuple[TracedCycle, ...], ...]

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


def trace_view(traces: Sequence[RankTrace]) -> TraceView | None:
    """Recognise the cycles of all ranks that hold kernels; None if none does."""
    kept = sorted((trace for trace in traces if len(trace.kernels)), key=lambda trace: trace.tp_rank)
    if not kept:
        return None
    ranks = tuple(rank_cycles(trace) for trace in kept)
    return TraceView(tuple(kept), ranks, tuple(aligned_cycles(ranks)))
