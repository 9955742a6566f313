"""Joins what several sources say of one configuration; nothing is averaged over sources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from toolkit.analysis.cells.cell_key import CellKey, agree, key_of
from toolkit.schema.inspection import (
    AcceptanceReport,
    Bound,
    CollectiveReport,
    Configuration,
    PhaseTime,
    RankReport,
    Spread,
    Throughput,
)
from toolkit.units import tokens_per_second

T = TypeVar("T")

_HOST_BOUND = 0.75  # GPU work over cycle time; below this the cycle is set by something else
_GPU_BOUND = 0.85


def join_cells(by_source: Iterable[dict[CellKey, Configuration]]) -> list[Configuration]:
    """Join configurations of one run; sources come in order of trust, each naming cells by key.

    A cell joins an earlier one if all parts that both know agree; of each quantity the first source
    that has it is kept, and every source is named. A traced cycle is kept only where there is no other.
    """
    joined: list[_Joined] = []
    for cells in by_source:
        for cell in cells.values():
            traced = cell.cycle_us.mean if cell.cycle_us and cell.cycle_source == "trace" else None
            at = _place([one.cell for one in joined], key_of(cell))
            if at is None:
                joined.append(_Joined(cell, traced))
            else:
                known = joined[at]
                joined[at] = _Joined(_merged(known.cell, cell), _either(known.traced_cycle_us, traced))
    return [_concluded(one) for one in joined]


@dataclass(frozen=True, slots=True)
class _Joined:
    """A configuration on its way, and the mean of its cycle as the trace had it."""

    cell: Configuration
    traced_cycle_us: float | None


def _place(joined: list[Configuration], key: CellKey) -> int | None:
    exact = [i for i, cell in enumerate(joined) if key_of(cell) == key]
    near = exact or [i for i, cell in enumerate(joined) if agree(key_of(cell), key)]
    return near[0] if near else None


def _merged(first: Configuration, second: Configuration) -> Configuration:
    timed = _better_timed(first, second)
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
        ranks=_merged_ranks(first, second),
        draft_steps=steps.draft_steps,
        draft_steps_source=steps.draft_steps_source,
        collectives=_merged_collectives(first.collectives, second.collectives),
        acceptance=_merged_acceptance(first.acceptance, second.acceptance),
        throughput_tok_s=first.throughput_tok_s
        if first.throughput_tok_s.measured
        else second.throughput_tok_s,
        unattributed_fraction=_either(first.unattributed_fraction, second.unattributed_fraction),
        graph=_either(first.graph, second.graph),
        straggler=_either(first.straggler, second.straggler),
        notes=(*first.notes, *second.notes),
    )


def _better_timed(first: Configuration, second: Configuration) -> Configuration:
    """Return the one whose cycle is kept: the first, but a traced one only if nothing shorter is known.

    A profiler makes cycles longer and never shorter; where another source's is longer still, that one
    holds more than cycles (a client's seconds hold the prompts' prefill).
    """
    if first.cycle_us is None or second.cycle_us is None:
        return first if first.cycle_us else second
    if first.cycle_source != "trace":
        return first
    return second if second.cycle_us.mean < first.cycle_us.mean else first


def _either(first: T | None, second: T | None) -> T | None:
    return first if first is not None else second


def _merged_ranks(first: Configuration, second: Configuration) -> tuple[RankReport, ...]:
    by_rank = {rank.tp_rank: rank for rank in first.ranks}
    for rank in second.ranks:
        mine = by_rank.get(rank.tp_rank)
        by_rank[rank.tp_rank] = _merged_rank(mine, rank) if mine else rank
    return tuple(by_rank[number] for number in sorted(by_rank))


def _merged_rank(first: RankReport, second: RankReport) -> RankReport:
    phases = dict(first.phases)
    for name, time in second.phases.items():
        phases[name] = _merged_phase(phases[name], time) if name in phases else time
    return RankReport(
        tp_rank=first.tp_rank,
        gpu_busy_fraction=_either(first.gpu_busy_fraction, second.gpu_busy_fraction),
        gpu_work_fraction=_either(first.gpu_work_fraction, second.gpu_work_fraction),
        phases=phases,
        clock=_either(first.clock, second.clock),
    )


def _merged_phase(first: PhaseTime, second: PhaseTime) -> PhaseTime:
    """Kernels say more of a graph than events do, so a traced graph time is preferred, with its waits."""
    traced = second if second.kernels is not None else first
    collectives_us = _either(traced.collectives_us, _either(first.collectives_us, second.collectives_us))
    return PhaseTime(
        graph_us=traced.graph_us or first.graph_us or second.graph_us,
        busy_us=_either(first.busy_us, second.busy_us),
        stage_us=first.stage_us or second.stage_us,
        kernels=_either(first.kernels, second.kernels),
        graph=first.graph if first.graph is not None else second.graph,
        wait_us=traced.wait_us if traced.graph_us else _either(first.wait_us, second.wait_us),
        collectives_us=collectives_us,
    )


def _merged_collectives(
    first: Sequence[CollectiveReport], second: Sequence[CollectiveReport]
) -> tuple[CollectiveReport, ...]:
    """Return each phase's reports of one source: of the trace where it has the phase, else the first's."""
    kept: dict[str, list[CollectiveReport]] = {}
    for reports in (first, second):
        found: dict[str, list[CollectiveReport]] = {}
        for report in reports:
            found.setdefault(report.phase, []).append(report)
        for phase, own in found.items():
            if phase not in kept or (own[0].source == "trace" and kept[phase][0].source != "trace"):
                kept[phase] = own
    return tuple(report for own in kept.values() for report in own)


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
        rate=_either(first.rate, second.rate),
        rate_kind=first.rate_kind or second.rate_kind,
    )


def _concluded(joined: _Joined) -> Configuration:
    """Add what follows from the joined numbers.

    Shares of the traced cycle become shares of the untraced one: the work is the same in both, and a
    profiler makes the cycle longer.
    """
    cell = joined.cell
    inflation = None
    if joined.traced_cycle_us and cell.cycle_us and cell.cycle_source != "trace":
        inflation = joined.traced_cycle_us / cell.cycle_us.mean
    ranks = tuple(_untraced(rank, cell, inflation) for rank in cell.ranks)
    return replace(
        cell,
        ranks=ranks,
        throughput_tok_s=_throughput(cell),
        bound=_bound(ranks, cell.cycle_source),
        unattributed_fraction=_scaled(cell.unattributed_fraction, inflation),
        trace_inflation=inflation,
    )


def _scaled(fraction: float | None, inflation: float | None) -> float | None:
    return fraction if fraction is None or inflation is None else min(1.0, fraction * inflation)


def _untraced(rank: RankReport, cell: Configuration, inflation: float | None) -> RankReport:
    """Put a traced rank's shares and gap in terms of the untraced cycle.

    gap = cycle - spans of its phases: means and medians are subtracted from their like; the outer
    quantiles are the cycle's less the phases' medians. Quantiles are of a time, so none is below 0; the
    mean is what is left to account for and keeps its sign.
    """
    if inflation is None or cell.cycle_us is None:
        return rank
    phases = dict(rank.phases)
    if "gap" in phases:
        spans = [time.graph_us for name, time in phases.items() if name != "gap" and time.graph_us]
        medians = sum(span.median for span in spans)
        cycle = cell.cycle_us
        phases["gap"] = PhaseTime(
            graph_us=Spread(
                median=max(cycle.median - medians, 0.0),
                p10=max(cycle.p10 - medians, 0.0),
                p90=max(cycle.p90 - medians, 0.0),
                mean=cycle.mean - sum(span.mean for span in spans),
                se=math.sqrt(cycle.se**2 + sum(span.se**2 for span in spans)),
                count=min([cycle.count, *(span.count for span in spans)]),
            )
        )
    return replace(
        rank,
        phases=phases,
        gpu_busy_fraction=_scaled(rank.gpu_busy_fraction, inflation),
        gpu_work_fraction=_scaled(rank.gpu_work_fraction, inflation),
    )


def _throughput(cell: Configuration) -> Throughput:
    length = cell.acceptance.accept_length if cell.acceptance else (1.0 if cell.num_steps == 0 else None)
    from_cycle = None
    if cell.cycle_us and cell.batch_size and length:
        from_cycle = tokens_per_second(cell.batch_size * length, cell.cycle_us.mean)
    return replace(cell.throughput_tok_s, from_cycle=from_cycle)


def _bound(ranks: Sequence[RankReport], cycle_source: str | None) -> Bound:
    """Return what sets the cycle: GPU work (waiting for other ranks is none) over cycle time.

    A profiler slows the host, without stacks too (the traced cycle was up to twice as long on H200),
    and a client's seconds hold prefill, so only spans and logs can show that the host sets the cycle.
    """
    working = [rank.gpu_work_fraction for rank in ranks if rank.gpu_work_fraction is not None]
    if not working:
        return "unknown"
    if max(working) >= _GPU_BOUND:
        return "gpu"
    return "host" if max(working) <= _HOST_BOUND and cycle_source in ("spans", "log") else "unknown"
