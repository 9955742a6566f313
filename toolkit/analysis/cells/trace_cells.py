"""Configurations from kernel traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from toolkit.analysis.cells.cell_key import TARGET, CellKey, key_of
from toolkit.analysis.statistics import spread
from toolkit.analysis.trace.collectives import PhaseCollectives, phase_collectives
from toolkit.analysis.trace.cycles import Phase, TracedCycle
from toolkit.analysis.trace.draft_steps import step_durations_ns, usual_count
from toolkit.analysis.trace.rank_report import RankTimes, rank_times
from toolkit.analysis.trace.releasing import releasing
from toolkit.analysis.trace.stragglers import straggler, straggler_text
from toolkit.analysis.trace.trace_view import PHASES, TraceView
from toolkit.schema.inspection import CollectiveReport, Configuration, DraftStep, Spread, Straggler
from toolkit.schema.run import RunInfo
from toolkit.units import us_from_ns


def trace_cells(view: TraceView, info: RunInfo) -> dict[CellKey, Configuration]:
    """Return one configuration per batch size that the traces show.

    The batch comes from the engine's host ranges, else from `info`. Ranks without a common cycle are
    reported without collectives.
    """
    batches = dict.fromkeys(_batch(cycle, info) for rank in view.ranks for cycle in rank.cycles)
    cells: dict[CellKey, Configuration] = {}
    for batch in batches:
        cell = _cell(view, batch, info)
        cells[key_of(cell)] = cell
    return cells


def _batch(cycle: TracedCycle, info: RunInfo) -> int | None:
    return cycle.batch_size if cycle.batch_size is not None else info.batch_size


def _cell(view: TraceView, batch: int | None, info: RunInfo) -> Configuration:
    own = [[cycle for cycle in rank.cycles if _batch(cycle, info) == batch] for rank in view.ranks]
    aligned = [ranks for ranks in view.aligned if all(_batch(cycle, info) == batch for cycle in ranks)]
    by_phase = {name: phase_collectives(view, name, aligned) for name in PHASES}
    collectives = {name: found for name, found in by_phase.items() if found}
    times = [
        rank_times(
            view,
            rank,
            cycles,
            _medians_us({name: found.waits_ns[:, rank] for name, found in collectives.items()}),
            _waiting_us(collectives, rank),
            _medians_us({name: found.totals_ns[:, rank] for name, found in collectives.items()}),
        )
        for rank, cycles in enumerate(own)
    ]
    tokens = next((cycle.tokens for cycles in own for cycle in cycles if cycle.tokens), None)
    known_steps = info.num_steps
    if known_steps is None and tokens and batch and info.topk in (None, 1):
        known_steps = tokens // batch - 1  # a chain verifies its root and one token a step
    steps = draft_step_times(view, own, known_steps - 1 if known_steps and known_steps > 1 else None)
    num_steps = known_steps if known_steps is not None else _num_steps(view, own, steps)
    cycle_us = spread(times[0].period_us)
    late = _straggler(view, collectives, cycle_us)
    return Configuration(
        batch_size=batch,
        padded_batch_size=None,
        num_steps=num_steps,
        num_draft_tokens=_num_draft_tokens(num_steps, tokens, batch, info, _may_branch(view, own)),
        topk=info.topk,
        context_tokens=info.context_tokens,
        cycles=max(len(cycles) for cycles in own),
        sources=("trace",),
        cycle_us=cycle_us,
        cycle_source="trace" if cycle_us else None,
        ranks=tuple(time.report for time in times),
        draft_steps=_draft_steps(steps, own, info.engine),
        draft_steps_source="trace" if steps or info.engine == "vllm" else None,
        collectives=_reports(collectives),
        unattributed_fraction=_unattributed(times),
        graph=_graph(own),
        straggler=late,
        notes=(straggler_text(late),) if late else (),
    )


def _straggler(
    view: TraceView, collectives: dict[str, PhaseCollectives], cycle_us: Spread | None
) -> Straggler | None:
    """Return the rank that the others wait for, over all phases in which waits are known."""
    caused = [found.caused_ns[:, view.compared] for found in collectives.values()]
    known = [one for one in caused if np.isfinite(one).any()]
    if not known:
        return None
    total = np.sum([np.where(np.isfinite(one), one, 0.0) for one in known], axis=0)
    ranks = [view.ranks[at].tp_rank for at in view.compared]
    return straggler(total, ranks, cycle_us.median if cycle_us else None)


def _graph(own: Sequence[Sequence[TracedCycle]]) -> bool | None:
    """Return whether the target's forwards are replays of graphs; None where some are."""
    told = {c.phases[name].graph for cycles in own for c in cycles for name in TARGET if name in c.phases}
    return told.pop() if len(told) == 1 else None


def _reports(collectives: dict[str, PhaseCollectives]) -> tuple[CollectiveReport, ...]:
    return tuple(report for found in collectives.values() for report in found.reports)


def _medians_us(by_phase: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the median over cycles of times in ns, in us, of each phase in which one is known."""
    return {
        name: us_from_ns(float(np.nanmedian(times)))
        for name, times in by_phase.items()
        if np.isfinite(times).any()
    }


def _waiting_us(collectives: dict[str, PhaseCollectives], rank: int) -> float | None:
    """Return the mean of what one rank waits in a cycle, over all phases; None if nothing matched."""
    means = [np.nanmean(own) for f in collectives.values() if np.isfinite(own := f.waits_ns[:, rank]).any()]
    return us_from_ns(float(sum(means))) if means else None


def draft_step_times(
    view: TraceView, cycles: Sequence[Sequence[TracedCycle]], count: int | None
) -> list[list[list[int]]]:
    """Return ns by rank, cycle and forward for the draft passes that could be split.

    Passes that lost kernels or do not split into the usual number of forwards are left out; no rank is
    kept of which more than a few whole ones did not split.
    """
    found: list[list[list[int]]] = []
    for trace, own in zip(view.traces, cycles, strict=True):
        passes = _whole([cycle.phases["draft"] for cycle in own if "draft" in cycle.phases])
        split = [step_durations_ns(phase, trace, count) for phase in releasing(passes, trace.kernels)]
        known = [steps for steps in split if steps]
        usual = usual_count([len(steps) for steps in known])
        kept = [steps for steps in known if len(steps) == usual]
        if kept and len(kept) >= _MOST * len(passes):
            found.append(kept)
    return found


_MOST = 0.8  # share of a rank's draft passes that must split alike
_FAIR = 0.2  # share of passes that lost nothing where a profiler lost one kernel in forty


def _whole(passes: Sequence[Phase]) -> list[Phase]:
    """Return the passes that lost no kernel: of one graph, those with most of the sizes often seen."""
    counts = Counter(len(phase.kernels) for phase in passes)
    often = [size for size, times in counts.items() if times >= _FAIR * len(passes)]
    if not often or any(len(phase.forwards) > 1 for phase in passes):
        return list(passes)
    return [phase for phase in passes if len(phase.kernels) == max(often)]


def _draft_steps(
    by_rank: list[list[list[int]]], own: Sequence[Sequence[TracedCycle]], engine: str | None
) -> tuple[DraftStep, ...]:
    """Return each draft forward; vLLM's first one doubles as the extend, SGLang's pass has none of it."""
    steps = _median_steps(by_rank)
    if engine != "vllm":
        return steps
    extends = [[c.phases["draft_extend"] for c in cycles if "draft_extend" in c.phases] for cycles in own]
    medians = [np.median([phase.end_ns - phase.start_ns for phase in rank]) for rank in extends if rank]
    if not medians:
        return ()
    first = DraftStep(forward=1, median_us=us_from_ns(float(min(medians))), is_extend=True)
    return (first, *(DraftStep(forward=step.forward + 1, median_us=step.median_us) for step in steps))


def _median_steps(by_rank: list[list[list[int]]]) -> tuple[DraftStep, ...]:
    """Return the median of each forward, of the rank that waits least in it."""
    if not by_rank:
        return ()
    medians = [np.median(np.array(steps), axis=0) for steps in by_rank]
    shortest = min(len(values) for values in medians)
    least = np.min([values[:shortest] for values in medians], axis=0)
    return tuple(DraftStep(forward=i + 1, median_us=us_from_ns(float(ns))) for i, ns in enumerate(least))


def _num_steps(
    view: TraceView, own: Sequence[Sequence[TracedCycle]], steps: list[list[list[int]]]
) -> int | None:
    """Return the step count from the forwards seen; None where they do not tell."""
    if not view.speculative:
        return 0
    if steps:
        return len(steps[0][0]) + 1
    phases = [cycle.phases for cycles in own for cycle in cycles]
    if any("draft" in found for found in phases):
        return None
    extends = [len(found["draft_extend"].forwards) for found in phases if "draft_extend" in found]
    return usual_count(extends)  # one; of a draft of several layers, one for each step


def _may_branch(view: TraceView, own: Sequence[Sequence[TracedCycle]]) -> bool:
    """Return whether drafts are sorted, as only a tree with several children a step needs it."""
    for trace, cycles in zip(view.traces, own, strict=True):
        drafting = [c.phases[name] for c in cycles for name in ("draft", "draft_extend") if name in c.phases]
        read = releasing(drafting, trace.kernels)
        used = {name for phase in read for name in trace.kernels.name[phase.kernels].tolist()}
        if any(_SORTS.search(trace.names[name]) for name in used):
            return True
    return False


_SORTS = re.compile("bitonicSort|radixSort", re.IGNORECASE)


def _num_draft_tokens(
    num_steps: int | None, tokens: int | None, batch: int | None, info: RunInfo, may_branch: bool
) -> int | None:
    if info.num_draft_tokens is not None:
        return info.num_draft_tokens
    if tokens and batch:
        return tokens // batch
    if num_steps is None or (info.topk or 1) > 1 or (info.topk is None and may_branch):
        return None
    return num_steps + 1  # a chain: its root and one draft a step


def _unattributed(times: Sequence[RankTimes]) -> float | None:
    """Return the mean share of a cycle in which work runs that belongs to no phase."""
    period = sum(sum(time.period_us) for time in times)
    return sum(sum(time.unattributed_us) for time in times) / period if period else None
