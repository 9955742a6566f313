"""Joins what several sources say of one configuration; nothing is averaged over sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from toolkit.analysis.cell_key import CellKey, agree, key_of
from toolkit.schema.inspection import (
    AcceptanceReport,
    Bound,
    Configuration,
    PhaseTime,
    RankReport,
    Throughput,
)
from toolkit.units import US_PER_S

T = TypeVar("T")

_HOST_BOUND = 0.75  # GPU work over cycle time; below this the cycle is set by something else
_GPU_BOUND = 0.85


def join_cells(
    by_source: Iterable[dict[CellKey, Configuration]], with_stack: bool | None
) -> list[Configuration]:
    """Join configurations of one run; sources come in order of trust, each naming cells by key.

    A cell joins an earlier one if all parts that both know agree; of each quantity the first source
    that has it is kept, and every source is named.
    """
    joined: list[Configuration] = []
    for cells in by_source:
        for cell in cells.values():
            at = _place(joined, key_of(cell))
            if at is None:
                joined.append(cell)
            else:
                joined[at] = _merged(joined[at], cell, with_stack)
    return [_concluded(cell) for cell in joined]


def _place(joined: list[Configuration], key: CellKey) -> int | None:
    exact = [i for i, cell in enumerate(joined) if key_of(cell) == key]
    near = exact or [i for i, cell in enumerate(joined) if agree(key_of(cell), key)]
    return near[0] if near else None


def _merged(first: Configuration, second: Configuration, with_stack: bool | None) -> Configuration:
    traced = next((cell for cell in (first, second) if "trace" in cell.sources and cell.cycle_us), None)
    timed = first if first.cycle_us else second
    inflation = None
    if traced and timed.cycle_us and traced.cycle_us and timed.cycle_source != "trace":
        inflation = traced.cycle_us.mean / timed.cycle_us.mean
    steps = first if first.draft_steps else second
    return replace(
        first,
        batch_size=_either(first.batch_size, second.batch_size),
        padded_batch_size=_either(first.padded_batch_size, second.padded_batch_size),
        num_steps=_either(first.num_steps, second.num_steps),
        num_draft_tokens=_either(first.num_draft_tokens, second.num_draft_tokens),
        topk=_either(first.topk, second.topk),
        context_tokens=_either(first.context_tokens, second.context_tokens),
        cycles=timed.cycles or max(first.cycles, second.cycles),
        sources=tuple(dict.fromkeys((*first.sources, *second.sources))),
        cycle_us=timed.cycle_us,
        cycle_source=timed.cycle_source,
        ranks=_merged_ranks(first, second, inflation if with_stack else None),
        draft_steps=steps.draft_steps,
        draft_steps_source=steps.draft_steps_source,
        collectives=first.collectives or second.collectives,
        acceptance=_merged_acceptance(first.acceptance, second.acceptance),
        throughput_tok_s=first.throughput_tok_s if first.throughput_tok_s.measured else second.throughput_tok_s,
        unattributed_fraction=_per_untraced_cycle(
            _either(first.unattributed_fraction, second.unattributed_fraction),
            inflation if with_stack else None,
        ),
        trace_inflation=_either(first.trace_inflation, inflation),
    )


def _either(first: T | None, second: T | None) -> T | None:
    return first if first is not None else second


def _merged_ranks(
    first: Configuration, second: Configuration, inflation: float | None
) -> tuple[RankReport, ...]:
    by_rank = {rank.tp_rank: rank for rank in first.ranks}
    for rank in second.ranks:
        mine = by_rank.get(rank.tp_rank)
        by_rank[rank.tp_rank] = _merged_rank(mine, rank) if mine else rank
    ranks = tuple(by_rank[number] for number in sorted(by_rank))
    if not inflation:
        return ranks
    return tuple(
        replace(rank, gpu_busy_fraction=_per_untraced_cycle(rank.gpu_busy_fraction, inflation))
        for rank in ranks
    )


def _per_untraced_cycle(fraction: float | None, inflation: float | None) -> float | None:
    """Return a share of the traced cycle as one of the untraced cycle: the work is the same in both."""
    return fraction if fraction is None or inflation is None else min(1.0, fraction * inflation)


def _merged_rank(first: RankReport, second: RankReport) -> RankReport:
    phases = dict(first.phases)
    for name, time in second.phases.items():
        phases[name] = _merged_phase(phases[name], time) if name in phases else time
    busy = first.gpu_busy_fraction if first.gpu_busy_fraction is not None else second.gpu_busy_fraction
    return RankReport(tp_rank=first.tp_rank, gpu_busy_fraction=busy, phases=phases)


def _merged_phase(first: PhaseTime, second: PhaseTime) -> PhaseTime:
    """Kernels say more of a graph than events do, so a traced graph time is preferred."""
    traced = second if second.kernels is not None else first
    return PhaseTime(
        graph_us=traced.graph_us or first.graph_us or second.graph_us,
        busy_us=_either(first.busy_us, second.busy_us),
        stage_us=first.stage_us or second.stage_us,
        kernels=_either(first.kernels, second.kernels),
        graph=first.graph if first.graph is not None else second.graph,
        wait_us=_either(first.wait_us, second.wait_us),
    )


def _merged_acceptance(
    first: AcceptanceReport | None, second: AcceptanceReport | None
) -> AcceptanceReport | None:
    if first is None or second is None:
        return first or second
    if second.requests and not first.requests:
        first, second = second, first  # counters of whole requests are exact, a log rounds
    return replace(
        first,
        accept_by_position=first.accept_by_position or second.accept_by_position,
        se=first.se if first.se is not None else second.se,
        rate=_either(first.rate, second.rate),
        rate_kind=first.rate_kind or second.rate_kind,
    )


def _concluded(cell: Configuration) -> Configuration:
    """Add what follows from the joined numbers: throughput from the cycle, and what bounds the cycle."""
    ranks = tuple(_with_gap(rank, cell) for rank in cell.ranks)
    return replace(cell, ranks=ranks, throughput_tok_s=_throughput(cell), bound=_bound(cell))


def _with_gap(rank: RankReport, cell: Configuration) -> RankReport:
    """Put the gap of the untraced cycle in place of the traced one, which a profiler inflates.

    gap = cycle - spans of its phases, each quantile of the cycle less the phases' medians.
    """
    spans = [time.graph_us.median for name, time in rank.phases.items() if name != "gap" and time.graph_us]
    if "gap" not in rank.phases or cell.cycle_source == "trace" or not cell.cycle_us:
        return rank
    cycle, inside = cell.cycle_us, sum(spans)
    gap = replace(
        cycle,
        median=cycle.median - inside,
        p10=cycle.p10 - inside,
        p90=cycle.p90 - inside,
        mean=cycle.mean - inside,
    )
    return replace(rank, phases={**rank.phases, "gap": PhaseTime(graph_us=gap)})


def _throughput(cell: Configuration) -> Throughput:
    length = cell.acceptance.accept_length if cell.acceptance else (1.0 if cell.num_steps == 0 else None)
    from_cycle = None
    if cell.cycle_us and cell.batch_size and length:
        from_cycle = cell.batch_size * length * US_PER_S / cell.cycle_us.mean
    return replace(cell.throughput_tok_s, from_cycle=from_cycle)


def _bound(cell: Configuration) -> Bound:
    """Return what sets the cycle: GPU work (waiting for other ranks is none) over cycle time.

    A profiler slows the host, without stacks too (the traced cycle was up to twice as long on H200),
    so a traced cycle alone can show that the GPU sets it but not that the host does.
    """
    fractions = []
    for rank in cell.ranks:
        if rank.gpu_busy_fraction is None or not cell.cycle_us:
            continue
        waits = sum(phase.wait_us or 0.0 for phase in rank.phases.values())
        fractions.append(rank.gpu_busy_fraction - waits / cell.cycle_us.mean)
    if not fractions:
        return "unknown"
    busiest = max(fractions)
    if busiest >= _GPU_BOUND:
        return "gpu"
    return "host" if busiest <= _HOST_BOUND and cell.cycle_source != "trace" else "unknown"
