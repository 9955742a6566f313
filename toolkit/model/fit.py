"""Inspected runs to a cost model: one sub-model per (engine, model, gpu, tp_size) and draft model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from toolkit import __version__
from toolkit.errors import UndeterminedError
from toolkit.model.calibrations import calibration_for, calibrations_of
from toolkit.model.cell import Cell, GroupKey, setting_of
from toolkit.model.cells import cells_of
from toolkit.model.cycle_time import cycle_at
from toolkit.model.design import next_runs, run_where_missed
from toolkit.model.experts_apart import with_experts
from toolkit.model.fit_cells import FitDetail, fit_cells, own_wire_us
from toolkit.model.fit_warnings import fit_warnings
from toolkit.model.graph_sizes import captured_sizes
from toolkit.model.grouping import (
    apart_warning,
    group_text,
    grouped,
    joined_warning,
    other_drafts,
    screened,
)
from toolkit.model.holdout import holdout
from toolkit.model.identify import identifiability
from toolkit.model.knee import with_knee
from toolkit.model.pooled_acceptance import pooled_curve, rate_convention, speculative_settings
from toolkit.model.term_table import terms_of
from toolkit.schema.cost import CostModel, FittedCell, GroupModel
from toolkit.schema.inspection import Inspection

_T = TypeVar("_T")
DRAWS = 200
_DIGITS = 7  # significant, of every number stored


def fit_cost_model(inspection: Inspection, *, seed: int = 0, draws: int = DRAWS) -> CostModel:
    """Return the cost model of the runs, the same for the same runs and seed.

    UndeterminedError when not one configuration has a usable time.
    """
    cells, warnings = cells_of(inspection)
    calibrations = calibrations_of(inspection)
    sizes = {run.run: run.model_sizes for run in inspection.runs}
    groups: list[GroupModel] = []
    found = grouped(cells)
    warnings += apart_warning(found)
    for key, members in found.items():
        drafts = other_drafts(key, found)
        named = group_text(key, with_draft=bool(drafts))
        warnings += [f"{named}: {text}" for text in joined_warning(key, members)]
        kept, left_out = screened(members)
        warnings += left_out
        if kept:
            group = _group(key, kept, seed, draws)
            served = [sizes[run] for run in dict.fromkeys(cell.run for cell in kept)]
            calibration, unused = calibration_for(key.gpu, served, key.tp_size, calibrations)
            said = tuple(f"{named}: {text}" for text in (*group.warnings, *unused))
            groups.append(replace(group, calibration=calibration, other_drafts=drafts, warnings=said))
    if not groups:
        reason = f": {warnings[0]}" if warnings else ""
        raise UndeterminedError(
            f"none of {len(inspection.runs)} runs has a configuration with a cycle time to fit{reason}; "
            "give run folders with spans, traces or decode log lines"
        )
    return CostModel(
        toolkit_version=__version__,
        seed=seed,
        runs=sum(run.calibration is None or bool(run.configurations) for run in inspection.runs),
        groups=tuple(groups),
        warnings=tuple(dict.fromkeys([*inspection.warnings, *warnings])),
    )


def _group(key: GroupKey, cells: Sequence[Cell], seed: int, draws: int) -> GroupModel:
    cells = with_experts(cells, key)
    draft_tp = _most(cell.draft_tp for cell in cells if cell.num_steps > 0) or key.tp_size
    cells = with_knee([_apart(cell, draft_tp) for cell in cells], key)
    detail = fit_cells(cells, seed=seed, draws=draws)
    held_out, scales, misses = holdout(detail)
    noise = replace(detail.fitted.noise, plain_scale=scales["plain"], speculative_scale=scales["speculative"])
    fitted = replace(detail.fitted, noise=noise)
    detail = replace(detail, fitted=fitted)
    told = identifiability(detail.design, fitted.columns)
    convention, convention_source = rate_convention(cells)
    engine, model, gpu, tp_size, draft_model = key
    return GroupModel(
        engine=engine,
        engine_versions=tuple(sorted({cell.engine_version for cell in cells if cell.engine_version})),
        model=model,
        gpu=gpu,
        tp_size=tp_size,
        draft_tp=draft_tp,
        overlap_schedule=_overlap(cells),
        columns=fitted.columns,
        norms=_rounded(fitted.norms),
        solution=_rounded(fitted.solution),
        null_space=tuple(_rounded(row) for row in fitted.null),
        vertices=tuple(_rounded(row) for row in fitted.vertices),
        draws=tuple(_rounded(row) for row in fitted.draws),
        terms=terms_of(detail, tp_size),
        collectives=fitted.costs,
        cells=_fitted_cells(detail),
        noise=fitted.noise,
        holdout=held_out,
        identifiability=told,
        next_runs=next_runs(detail, told) or run_where_missed(detail, misses),
        settings=speculative_settings(cells),
        rate_convention=convention,
        rate_convention_source=convention_source,
        curve=pooled_curve(cells),
        warnings=tuple(fit_warnings(detail)),
        draft_model=draft_model,
        graph_sizes=captured_sizes(cell for cell in cells if cell.num_steps > 0),
        plain_graph_sizes=captured_sizes(cell for cell in cells if cell.num_steps == 0),
    )


def _apart(cell: Cell, draft_tp: int | None) -> Cell:
    """Return a cell that says where its draft TP is not that of most of its group."""
    own = cell.draft_tp if cell.num_steps > 0 and cell.draft_tp != draft_tp else None
    return cell if own is None else replace(cell, other_draft_tp=own)


def _overlap(cells: Sequence[Cell]) -> bool | None:
    """Return whether speculative runs had the overlap scheduler; of plain ones where there are no others."""
    speculative = [cell.overlap_schedule for cell in cells if cell.num_steps > 0]
    return _most(speculative or [cell.overlap_schedule for cell in cells])


def _fitted_cells(detail: FitDetail) -> tuple[FittedCell, ...]:
    made = []
    for cell, floor in zip(detail.cells, detail.host_bound, strict=True):
        forecast = cycle_at(detail.fitted, setting_of(cell))
        made.append(
            FittedCell(
                run=cell.run,
                num_steps=cell.num_steps,
                num_draft_tokens=cell.num_draft_tokens,
                topk=cell.topk,
                batch_size=cell.batch_size,
                padded_batch_size=cell.padded_batch_size,
                context_tokens=cell.context_tokens,
                cycles=cell.cycles,
                cycle_us=cell.cycle.us if cell.cycle else None,
                cycle_source=cell.cycle_source,
                host_bound=floor,
                fitted_us=forecast.value if forecast.determined else None,
                accept_length=cell.acceptance.accept_length if cell.acceptance else None,
                overlap=cell.overlap,
                other_draft_tp=cell.other_draft_tp,
                experts=cell.shape.experts,
                experts_apart=cell.shape.experts_apart,
                wave_requests=cell.shape.wave_requests,
                knee_tokens=cell.shape.knee_tokens,
                wire_us=own_wire_us(cell, detail.fitted.costs),
            )
        )
    return tuple(made)


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)


def _most(values: Iterable[_T | None]) -> _T | None:
    """Return the value most cells have; None when none has one."""
    counts = Counter(value for value in values if value is not None)
    return counts.most_common(1)[0][0] if counts else None
