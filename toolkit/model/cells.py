"""Configurations of an inspection to cells of the fit; what is unusable is left out with a sentence."""

from __future__ import annotations

from math import isfinite

from toolkit.analysis.cells.cell_key import in_graph
from toolkit.model.cell import Cell, GroupKey, Timed, steps_text
from toolkit.model.model_shape import ModelShape, wave_requests
from toolkit.schema.inspection import Configuration, Inspection, PhaseTime, RunReport, Spread

_BUSY = 0.8  # GPU-busy share of a traced cycle from which tracing cannot have lengthened it much
_PHASES = ("draft", "verify", "sample", "draft_extend", "decode")


def cells_of(inspection: Inspection) -> tuple[list[Cell], list[str]]:
    """Return the usable cells of every run, and a sentence for each configuration left out."""
    cells: list[Cell] = []
    warnings: list[str] = []
    for run in inspection.runs:
        for configuration in run.configurations:
            made = _cell(run, configuration)
            if isinstance(made, str):
                row = f", row {configuration.row}" if configuration.row is not None else ""
                warnings.append(f"{run.run}{row}: {_setting(configuration)} left out of the fit: {made}")
            else:
                cells.append(made)
    return cells, warnings


def _key(run: RunReport, found: Configuration) -> GroupKey:
    draft_model = None if found.num_steps == 0 else found.draft_model or run.draft_model
    return GroupKey(run.engine, run.model, run.gpu, run.tp_size, draft_model)


def _tree(run: RunReport, found: Configuration) -> tuple[int, int]:
    """Return topk and the tokens verified for a request; 0 where a tree does not say."""
    topk = found.topk or run.topk or 1
    if found.num_steps == 0:
        return 1, 1
    return topk, found.num_draft_tokens or ((found.num_steps or 0) + 1 if topk == 1 else 0)


def _shape(run: RunReport) -> ModelShape:
    if run.engine != "sglang":
        return ModelShape()
    return ModelShape(wave_requests=wave_requests(run.heads, run.tp_size, run.gpu, run.backend))


def _setting(configuration: Configuration) -> str:
    steps = "unknown steps" if configuration.num_steps is None else steps_text(configuration.num_steps)
    return f"{steps} at batch {configuration.batch_size if configuration.batch_size is not None else '?'}"


def _cell(run: RunReport, found: Configuration) -> Cell | str:
    """Return a cell, or why there is none."""
    if found.num_steps is None:
        return "its step count is not known or adapts"
    if not found.batch_size or found.batch_size < 1:
        return "its batch size is not known"
    topk, width = _tree(run, found)
    if width < 1:
        return "a draft tree needs its number of draft tokens"
    if wrong := _impossible(found, width):
        return wrong
    cycle = None if _inflated(run, found) else _mean(found.cycle_us)
    if found.cycle_source == "log" and run.ended_early not in (None, "interrupted"):
        why = (run.ended_early or "").partition(";")[0]
        return f"its run ended early ({why}), and only its last log lines tell of a cycle"
    graph, stage = _phases(found)
    steps = _steps(found)
    if cycle is None and not graph and not stage and not steps:
        return _why_no_time(found)
    return Cell(
        key=_key(run, found),
        run=run.run,
        engine=run.engine,
        engine_version=run.engine_version,
        draft_tp=run.draft_tp,
        overlap_schedule=run.overlap_schedule,
        shape=_shape(run),
        graph_sizes=run.graph_sizes,
        largest_graph=run.largest_graph,
        acceptance_kind=run.acceptance_kind,
        num_steps=found.num_steps,
        num_draft_tokens=width,
        topk=topk,
        batch_size=found.batch_size,
        padded_batch_size=max(found.padded_batch_size or 0, found.batch_size),
        context_tokens=found.context_tokens,
        cycles=found.cycles,
        cycle=cycle,
        cycle_source=found.cycle_source if cycle else None,
        graph=graph,
        stage=stage,
        steps=steps,
        steps_exclude_selection=found.draft_steps_source == "spans",
        collectives=found.collectives,
        bound=found.bound,
        eager=_eager(run, found),
        draft_eager=_draft_eager(found),
        acceptance=found.acceptance,
    )


def _impossible(found: Configuration, width: int) -> str | None:
    """Return which of a configuration's numbers cannot be; None where all can."""
    length = found.acceptance.accept_length if found.acceptance else None
    if length is not None and not 1 <= length <= width + 1e-6:
        return f"accept length {length:g} is outside 1 to {width}, the tokens verified per request"
    if found.cycle_us is not None and not _valid(found.cycle_us):
        return f"its cycle of {found.cycle_us.mean:g} us is not a time"
    return None


def _inflated(run: RunReport, found: Configuration) -> bool:
    """Whether a cycle is a trace's own: too long by 2.7 with Python stacks, by 2 where hosts set it."""
    if found.cycle_source != "trace":
        return False
    busy = [rank.gpu_busy_fraction for rank in found.ranks if rank.gpu_busy_fraction is not None]
    return run.with_stack is not False or max(busy, default=0.0) < _BUSY


def _steps(found: Configuration) -> tuple[float, ...]:
    """Return draft forwards inside the draft pass; launched one by one, a trace's gaps are in them."""
    if any((time := rank.phases.get("draft")) is not None and time.graph is False for rank in found.ranks):
        return ()
    return tuple(step.median_us for step in found.draft_steps if step.median_us > 0 and not step.is_extend)


def _why_no_time(found: Configuration) -> str:
    if found.cycle_us is not None:
        return "its cycle comes from a trace, which slows the host, and no phase was timed apart"
    if found.throughput_tok_s.measured is not None and found.num_steps:
        return "it has a throughput but no accept length, so no cycle time"
    return "it has no cycle time"


def _valid(spread: Spread) -> bool:
    return isfinite(spread.mean) and spread.mean > 0


def _mean(spread: Spread | None) -> Timed | None:
    """The mean: throughput is a ratio of means."""
    if spread is None or not _valid(spread):
        return None
    return Timed(us=spread.mean, se=_relative(spread.se, spread.mean))


def _relative(se: float, us: float) -> float:
    return se / us if isfinite(se) and se > 0 and us > 0 else 0.0


def _phases(found: Configuration) -> tuple[dict[str, Timed], dict[str, Timed]]:
    """Return graph times (waits out) and stage times by phase, each the smallest over the ranks."""
    graph: dict[str, Timed] = {}
    stage: dict[str, Timed] = {}
    for rank in found.ranks:
        for phase in _PHASES:
            time = rank.phases.get(phase)
            if time is None:
                continue
            _keep_smaller(graph, phase, _without_wait(time))
            _keep_smaller(stage, phase, _median(time.stage_us, 0.0))
    return graph, stage


def _without_wait(time: PhaseTime) -> Timed | None:
    """The span of a captured graph; of kernels launched one by one the union, as a trace widens the gaps."""
    if time.graph is False and time.busy_us is not None and time.graph_us is not None:
        us = time.busy_us - max(time.wait_us or 0.0, 0.0)
        return Timed(us=us, se=_relative(time.graph_us.se, time.graph_us.mean)) if us > 0 else None
    return _median(time.graph_us, max(time.wait_us or 0.0, 0.0))


def _median(spread: Spread | None, wait_us: float) -> Timed | None:
    """The median: a phase has outliers (a first replay) that belong to no term."""
    if spread is None or not isfinite(spread.median) or spread.median <= wait_us:
        return None
    us = spread.median - wait_us
    return Timed(us=us, se=_relative(spread.se, us))


def _keep_smaller(times: dict[str, Timed], phase: str, time: Timed | None) -> None:
    if time is not None and (phase not in times or time.us < times[phase].us):
        times[phase] = time


def _eager(run: RunReport, found: Configuration) -> bool:
    """Return whether the target's forward is known to have run without a captured graph.

    A run is of one server: where nothing tells, it is as everything else of the run that tells.
    """
    own = in_graph(found)
    told = {in_graph(cell) for cell in run.configurations} - {None}
    return own is False or (own is None and told == {False})


def _draft_eager(found: Configuration) -> bool:
    """Return whether the draft is known to have run without a captured graph."""
    return any((time := rank.phases.get("draft")) is not None and time.graph is False for rank in found.ranks)
