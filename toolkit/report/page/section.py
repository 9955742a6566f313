"""One section of the page: a fitted group, or runs of one server that nothing could be fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.forecast.group_choice import group_text
from toolkit.report.forecast_text import acceptance_text, headline, situation_text
from toolkit.report.page.acceptance_figure import acceptance_figure
from toolkit.report.page.acceptance_map import acceptance_map
from toolkit.report.page.batch_map import batch_map
from toolkit.report.page.candidates_figure import candidates_figure
from toolkit.report.page.cycle_figure import cycle_figure
from toolkit.report.page.draft_tp_figure import draft_tp_figure
from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.fitted_figure import fitted_figure
from toolkit.report.page.missing import Measured, missing_of_group, missing_of_runs, next_run_text
from toolkit.report.page.phases import has_phases, parts_of
from toolkit.report.page.time_figure import time_figure
from toolkit.report.page.what_if_numbers import own_lengths, what_if_numbers
from toolkit.report.tables import number
from toolkit.schema.cost import GroupModel, Term
from toolkit.schema.forecast import Forecast
from toolkit.schema.inspection import Configuration, RunReport
from toolkit.schema.report import GroupAnswer, ReportFacts

_MOST_CYCLES = 6  # drawn besides the first plain and the first speculative one


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the template shows of a group; empty parts are left out."""

    key: str
    title: str
    verdict: str
    why: str
    lines: tuple[str, ...]
    cycles: tuple[Figure, ...]
    more_cycles: tuple[Figure, ...]
    measured: tuple[Figure, ...]
    forecasts: tuple[Figure, ...]
    what_if: dict[str, Any] | None
    draft_tp: Figure | None
    draft_tp_why: str
    missing: tuple[str, ...]
    next_runs: tuple[str, ...]
    warnings: tuple[str, ...]
    terms: Numbers | None
    flags: str


def group_section(place: int, answer: GroupAnswer, facts: ReportFacts) -> Section:
    """Return the section of one fitted group."""
    key, group = f"g{place}", answer.group
    measured = _measured(group, facts.inspection.runs)
    verdict, why = _verdict(answer)
    forecast = answer.forecast
    cycles, more = _cycles(key, measured, *_looked_at(answer))
    return Section(
        key=key,
        title=group_text(group),
        verdict=verdict,
        why=why,
        lines=_lines(answer),
        cycles=cycles,
        more_cycles=more,
        measured=_known(
            time_figure(f"{key}-time", measured),
            acceptance_figure(f"{key}-acceptance", measured, group.curve),
            fitted_figure(f"{key}-fitted", group),
        ),
        forecasts=() if forecast is None else _forecasts(key, answer, forecast),
        what_if=what_if_numbers(key, answer, facts),
        draft_tp=None if forecast is None else draft_tp_figure(f"{key}-draft-tp", forecast),
        draft_tp_why="" if forecast is None else _sentence(forecast.draft_tp.why),
        missing=tuple(missing_of_group(answer, measured)),
        next_runs=tuple(next_run_text(run) for run in group.next_runs),
        warnings=() if forecast is None else _new_warnings(forecast, facts),
        terms=_terms(group.terms),
        flags="" if forecast is None or answer.refused else _flags(forecast),
    )


def unfitted_section(place: int, runs: Sequence[RunReport], why: str) -> Section:
    """Return the section of runs of one server without a fit."""
    key, first = f"g{place}", runs[0]
    measured = [(run, cell) for run in runs for cell in run.configurations]
    named = [part for part in (first.engine, first.model, first.gpu) if part] or ["server not known"]
    named.append(f"TP{first.tp_size}" if first.tp_size else "TP size not known")
    cycles, more = _cycles(key, measured, None, None)
    return Section(
        key=key,
        title=", ".join(named),
        verdict="No forecast",
        why=_sentence(why),
        lines=(),
        cycles=cycles,
        more_cycles=more,
        measured=_known(
            time_figure(f"{key}-time", measured), acceptance_figure(f"{key}-acceptance", measured, None)
        ),
        forecasts=(),
        what_if=None,
        draft_tp=None,
        draft_tp_why="",
        missing=tuple(missing_of_runs(measured)),
        next_runs=(),
        warnings=(),
        terms=None,
        flags="",
    )


def _known(*figures: Figure | None) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure is not None)


def _measured(group: GroupModel, runs: Iterable[RunReport]) -> list[Measured]:
    """Return the configurations of the runs that the cells of a group are of."""
    settings = {(cell.run, cell.num_steps, cell.batch_size) for cell in group.cells}
    return [
        (run, cell)
        for run in runs
        for cell in run.configurations
        if (run.run, cell.num_steps, cell.batch_size) in settings and _may_be_of(group, run, cell)
    ]


def _may_be_of(group: GroupModel, run: RunReport, cell: Configuration) -> bool:
    """Return whether what a run says of its server is not another group's: run folders may share a name."""
    draft_model = None if cell.num_steps == 0 else cell.draft_model or run.draft_model
    own = (run.engine, run.model, run.gpu, run.tp_size, draft_model)
    grouped = (group.engine, group.model, group.gpu, group.tp_size, group.draft_model)
    return all(one is None or other in (None, one) for one, other in zip(own, grouped, strict=True))


def _looked_at(answer: GroupAnswer) -> tuple[int | None, int | None]:
    """Return batch and step count of the cycle to show first: those asked for, or that most cycles had."""
    asked = {} if answer.forecast is None else answer.forecast.inputs
    settings, steps = answer.group.settings, asked.get("current_steps")
    batch = asked.get("batch_size")
    chosen = steps if isinstance(steps, int) and steps else settings[0].num_steps if settings else None
    return (batch if isinstance(batch, int) else None), chosen


def _cycles(
    key: str, measured: Sequence[Measured], batch: int | None, steps: int | None
) -> tuple[tuple[Figure, ...], tuple[Figure, ...]]:
    """Return the best known speculative and plain cycle, and some others."""
    known = [(run, cell) for run, cell in measured if cell.cycle_us or has_phases(cell)]
    ordered = sorted(known, key=lambda one: _worth(one, batch, steps), reverse=True)
    first: list[Measured] = []
    for speculative in (True, False):
        first += [one for one in ordered if (one[1].num_steps != 0) is speculative][:1]
    chosen = {id(cell) for _, cell in first}
    seen = {(cell.num_steps, cell.batch_size) for _, cell in first}
    others: list[Measured] = []
    for run, cell in ordered:
        setting = (cell.num_steps, cell.batch_size)
        if id(cell) not in chosen and setting not in seen and has_phases(cell):
            seen.add(setting)
            others.append((run, cell))
    drawn = [
        cycle_figure(f"{key}-cycle-{place}", *one)
        for place, one in enumerate([*first, *others[:_MOST_CYCLES]])
    ]
    return _known(*drawn[: len(first)]), _known(*drawn[len(first) :])


def _worth(one: Measured, batch: int | None, steps: int | None) -> tuple[float, ...]:
    """Return what makes a configuration worth drawing: phases on the GPU, ranks, many cycles."""
    run, cell = one
    parts = [part for rank in cell.ranks for part in parts_of(rank, run.engine)]
    on_gpu = bool(parts) and not any(part.by_stage for part in parts)
    usual = run.overlap_schedule is not False and not run.with_stack
    context = cell.context_tokens or 0
    wanted = (cell.batch_size == batch, cell.num_steps in (0, steps))
    known = (len(cell.collectives) > 0, len(cell.ranks))
    return (has_phases(cell), usual, on_gpu, *known, *wanted, -context, cell.cycles)


def _verdict(answer: GroupAnswer) -> tuple[str, str]:
    if answer.refused is not None or answer.forecast is None:
        return "Cannot tell", _sentence(answer.refused or "nothing is forecast of this group")
    return headline(answer.forecast), _sentence(answer.forecast.recommendation.why)


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith('.') else '.'}" if said else ""


def _lines(answer: GroupAnswer) -> tuple[str, ...]:
    forecast = answer.forecast
    if forecast is None:
        return ()
    said = [f"Situation: {situation_text(forecast)}."]
    if not answer.length_supposed:
        said.append(acceptance_text(forecast.acceptance))
    return tuple(said)


def _forecasts(key: str, answer: GroupAnswer, forecast: Forecast) -> tuple[Figure, ...]:
    grid, supposed = answer.grid, answer.length_supposed
    made = [candidates_figure(f"{key}-candidates", forecast, supposed=supposed)]
    lines, steps = (None, ()) if grid is None else (grid.lengths, grid.steps)
    made.append(acceptance_map(f"{key}-acceptance-map", forecast, lines, steps, supposed=supposed))
    if grid is not None and not supposed:
        run = {cell.batch_size for cell in answer.group.cells}
        made.append(batch_map(f"{key}-batch-map", grid, own_lengths(answer), run))
    return _known(*made)


def _new_warnings(forecast: Forecast, facts: ReportFacts) -> tuple[str, ...]:
    """Return what the forecast warns of and the fit did not."""
    said = set(() if facts.model is None else facts.model.warnings) | set(facts.inspection.warnings)
    said |= {text for answer in facts.answers for text in answer.group.warnings}
    return tuple(text for text in dict.fromkeys(forecast.warnings) if text not in said)


def _terms(terms: Sequence[Term]) -> Numbers:
    rows = tuple(
        (
            term.name,
            number(term.value) if term.value is not None else "open" if term.left_open else "near 0",
            number(term.se),
            term.per,
            term.source,
        )
        for term in terms
    )
    return Numbers(columns=("term", "us", "± us", "per", "from"), rows=rows)


def _flags(forecast: Forecast) -> str:
    chosen = forecast.recommendation.candidate
    return "" if chosen is None else forecast.candidates[chosen].reachable.flags
