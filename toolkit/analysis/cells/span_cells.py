"""Configurations from the probe's spans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from toolkit.analysis.acceptance import from_spans
from toolkit.analysis.cells.cell_key import TARGET, CellKey
from toolkit.analysis.cells.context import context_bin, mean_context
from toolkit.analysis.cells.sampled_together import sampled_together
from toolkit.analysis.cells.span_collectives import (
    PhaseTimes,
    collective_report,
    phase_times,
    unknown_pairs,
    unlike_lists,
)
from toolkit.analysis.statistics import spread
from toolkit.schema.inspection import Configuration, DraftStep, PhaseTime, RankReport, Spread
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle
from toolkit.units import us_from_ns

_PHASES = ("draft", "verify", "sample", "draft_extend", "decode")
_RUN_AHEAD = 4  # cycles: a queue of two batches fills and drains
# From an event to a kernel and back, above an empty pair. Graphs with events around forwards or collectives
# are longer by 1.8 to 2.7 us a pair more than the empty pairs take: 15 recorded runs on two hosts with H200.
_KERNELS_BETWEEN_US = 2.2
_PAUSE = 3.0  # a gap this many usual cycles long held a prefill or an idle server


def span_cells(spans: Sequence[RankSpans], info: RunInfo) -> tuple[dict[CellKey, Configuration], list[str]]:
    """Return one configuration per (batch, padded batch, steps, context bin, graph), and warnings."""
    by_key: dict[CellKey, dict[int, list[SpanCycle]]] = defaultdict(dict)
    spans, apart = sampled_together([_without_marked(rank, info) for rank in spans])
    for rank in spans:
        for cycle in rank.cycles:
            by_key[_key(cycle, info)].setdefault(rank.tp_rank, []).append(cycle)
    periods = {rank.tp_rank: _periods(rank.cycles) for rank in spans}
    pair_us = {rank.tp_rank: _pair_us(rank) for rank in spans}
    timed = {key: phase_times(ranks, pair_us) for key, ranks in by_key.items()}
    steps = {key: _draft_steps(ranks, pair_us) for key, ranks in by_key.items()}
    cells = {key: _cell(key, ranks, periods, timed[key], steps[key], info) for key, ranks in by_key.items()}
    notes = [*unlike_lists(list(timed.values())), *unknown_pairs(list(timed.values()), pair_us)]
    return cells, [apart, *notes] if apart else notes


def _pair_us(rank: RankSpans) -> float | None:
    """Return what a pair of events in a graph adds to the kernels between them; None if not measured.

    0 where no collective was timed inside a graph.
    """
    if rank.event_pair_us is not None:
        return rank.event_pair_us + _KERNELS_BETWEEN_US
    phases = [(cycle, phase) for cycle in rank.cycles for phase in cycle.collectives_us or ()]
    eager = all((cycle.graph or {}).get(phase) is False for cycle, phase in phases)
    return 0.0 if eager else None


def _without_marked(rank: RankSpans, info: RunInfo) -> RankSpans:
    """Leave out the cycles of windows that run.json marks as disturbed: a slowed GPU, a trace being taken."""
    marked = info.captured.get("excluded_windows")
    windows = [
        (window["from_ns"], window["to_ns"])
        for window in (marked if isinstance(marked, list) else ())
        if isinstance(window, dict)
        and isinstance(window.get("from_ns"), int)
        and isinstance(window.get("to_ns"), int)
    ]
    if not windows:
        return rank
    usual = [c for c in rank.cycles if not any(begin <= c.t_ns <= end for begin, end in windows)]
    return replace(rank, cycles=tuple(usual))


def _key(cycle: SpanCycle, info: RunInfo) -> CellKey:
    context = cycle.context_tokens if cycle.context_tokens is not None else info.context_tokens
    return CellKey(
        batch_size=cycle.batch_size if cycle.batch_size is not None else info.batch_size,
        padded_batch_size=cycle.padded_batch_size,
        num_steps=cycle.num_steps if cycle.num_steps is not None else info.num_steps,
        context_bin=context_bin(context),
        graph=_graph(cycle),
    )


def _graph(cycle: SpanCycle) -> bool | None:
    """Return whether the target's forward was replayed as a graph."""
    told = cycle.graph
    if told:
        for phase in TARGET:
            if phase in told:
                return told[phase]
    return None


def _periods(cycles: Sequence[SpanCycle]) -> dict[int, float]:
    """Return for each cycle the time to the next one in us, where no other work came between.

    After a pause the host runs ahead of the GPU, so the first starts follow each other faster than
    cycles do; those are left out where enough remain.
    """
    found: dict[int, float] = {}
    since_pause = 0
    ahead: set[int] = set()
    kinds = {cycle.cycle: _kind(cycle) for cycle in cycles}
    for this, following in pairwise(cycles):
        if following.cycle != this.cycle + 1 or kinds[following.cycle] != kinds[this.cycle]:
            since_pause = 0
            continue
        found[this.cycle] = us_from_ns(following.t_ns - this.t_ns)
        if since_pause < _RUN_AHEAD:
            ahead.add(this.cycle)
        since_pause += 1
    if len(ahead) < len(found) / 2:
        found = {cycle: period for cycle, period in found.items() if cycle not in ahead}
    periods: dict[tuple[int | None, bool | None], list[float]] = defaultdict(list)
    for cycle, period in found.items():
        periods[kinds[cycle]].append(period)
    usual = {kind: float(np.median(same)) for kind, same in periods.items()}
    return {cycle: period for cycle, period in found.items() if 0 < period <= _PAUSE * usual[kinds[cycle]]}


def _kind(cycle: SpanCycle) -> tuple[int | None, bool | None]:
    """Return what makes the times of cycles comparable."""
    return cycle.batch_size, _graph(cycle)


def _cell(
    key: CellKey,
    ranks: dict[int, list[SpanCycle]],
    periods: dict[int, dict[int, float]],
    timed: dict[str, PhaseTimes],
    steps: tuple[DraftStep, ...],
    info: RunInfo,
) -> Configuration:
    first = min(ranks)
    cycles = ranks[first]
    drafts = [cycle.num_draft_tokens for cycle in cycles if cycle.num_draft_tokens is not None]
    cycle_us = spread([periods[first][c.cycle] for c in cycles if c.cycle in periods[first]])
    return Configuration(
        batch_size=key.batch_size,
        padded_batch_size=key.padded_batch_size,
        num_steps=key.num_steps,
        num_draft_tokens=drafts[0] if drafts else info.num_draft_tokens,
        topk=info.topk,
        context_tokens=mean_context([c.context_tokens for c in cycles]) or info.context_tokens,
        cycles=len(cycles),
        sources=("spans",),
        cycle_us=cycle_us,
        cycle_source="spans" if cycle_us else None,
        ranks=tuple(_rank(rank, own, timed) for rank, own in sorted(ranks.items())),
        draft_steps=steps,
        draft_steps_source="spans" if steps else None,
        collectives=tuple(collective_report(times, info) for times in timed.values()),
        acceptance=from_spans(cycles),
        graph=key.graph,
    )


def _rank(tp_rank: int, cycles: Sequence[SpanCycle], timed: dict[str, PhaseTimes]) -> RankReport:
    phases = {}
    for name in _PHASES:
        graph_us = _times([cycle.graph_us for cycle in cycles], name)
        stage_us = _times([cycle.stage_us for cycle in cycles], name)
        collectives_us = timed[name].total_us(tp_rank) if name in timed else None
        if graph_us or stage_us or collectives_us is not None:
            replayed = [c.graph[name] for c in cycles if c.graph and c.graph.get(name) is not None]
            phases[name] = PhaseTime(
                graph_us=graph_us,
                stage_us=stage_us,
                graph=all(replayed) if replayed else None,
                wait_us=timed[name].wait_us(tp_rank) if name in timed else None,
                collectives_us=collectives_us,
            )
    return RankReport(tp_rank=tp_rank, gpu_busy_fraction=None, phases=phases)


def _times(of_cycles: Sequence[dict[str, float | None] | None], name: str) -> Spread | None:
    return spread([value for times in of_cycles if times and (value := times.get(name)) is not None])


def _draft_steps(
    ranks: dict[int, list[SpanCycle]], pair_us: dict[int, float | None]
) -> tuple[DraftStep, ...]:
    """Return the median of each draft forward, of the rank that waits least in it.

    Inside a graph the events' own time is taken out.
    """
    by_forward: dict[int, list[float]] = defaultdict(list)
    for tp_rank, cycles in ranks.items():
        own_us = pair_us.get(tp_rank) or 0.0
        recorded = [
            [max(step - own_us, 0.0) if (c.graph or {}).get("draft") else step for step in c.draft_steps_us]
            for c in cycles
            if c.draft_steps_us
        ]
        for forward in range(max((len(steps) for steps in recorded), default=0)):
            values = [steps[forward] for steps in recorded if len(steps) > forward]
            by_forward[forward + 1].append(float(np.median(values)))
    return tuple(DraftStep(forward=n, median_us=min(medians)) for n, medians in sorted(by_forward.items()))
