"""A model against runs the fit never saw."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import fmean

from toolkit.errors import UndeterminedError
from toolkit.model.cell import Cell, GroupKey, setting_of
from toolkit.model.cells import cells_of
from toolkit.model.collective_costs import costs_of_cell, cycle_wire_us
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.draft_elsewhere import DraftTime, draft_elsewhere, draft_time
from toolkit.model.fitted import Fitted
from toolkit.model.grouping import group_for, group_text
from toolkit.model.recall import fitted_of
from toolkit.schema.cost import CheckedCell, CheckedPhase, CheckReport, CollectiveCost, CostModel, GroupModel
from toolkit.schema.inspection import Inspection
from toolkit.units import ms_from_us

_ANOTHER_WAY = 1.5  # times the wire time of a cycle: more than events and traces differ by


def check_model(model: CostModel, inspection: Inspection, path: str) -> CheckReport:
    """Return predicted against measured cycles; `path` names the model.

    UndeterminedError when not one measured cycle belongs to a fitted group and is determined.
    """
    cells, warnings = cells_of(inspection)
    groups = {_key(group): group for group in model.groups}
    checked: list[CheckedCell] = []
    for cell in cells:
        if cell.cycle is None:
            warnings.append(f"{cell.run}: {cell.setting_text} has no cycle time to compare with")
            continue
        key = group_for(cell.key, groups, plain=cell.num_steps == 0)
        group = None if key is None else groups[key]
        if group is None:
            warnings.append(f"{cell.run}: the model holds no group {_named(cell.key, groups)}")
            continue
        made = _checked(cell, group, model.seed)
        if isinstance(made, str):
            warnings.append(f"{cell.run}: {cell.setting_text} {made}")
        else:
            checked.append(made)
    if not checked:
        raise UndeterminedError(
            f"no measured cycle of these runs can be compared with {path}"
            f"{': ' + warnings[0] if warnings else ''}; give runs of a group that it holds"
        )
    drafts = [abs(cell.draft.error) for cell in checked if cell.draft is not None]
    return CheckReport(
        model=path,
        configurations=tuple(checked),
        mape=fmean(abs(cell.error) for cell in checked),
        covered90=fmean(cell.inside for cell in checked),
        draft_mape=fmean(drafts) if drafts else None,
        warnings=tuple(dict.fromkeys([*inspection.warnings, *warnings])),
    )


def _key(group: GroupModel) -> GroupKey:
    return GroupKey(group.engine, group.model, group.gpu, group.tp_size, group.draft_model)


def _named(key: GroupKey, groups: Collection[GroupKey]) -> str:
    return group_text(key, with_draft=any(one[:4] == key[:4] for one in groups))


def _checked(cell: Cell, group: GroupModel, seed: int) -> CheckedCell | str:
    """Return a cell beside its forecast, or why there is none."""
    fitted = fitted_of(group, seed)
    made = _forecast(cell, group, fitted)
    if isinstance(made, str):
        return made
    forecast, draft = made
    value, lo, hi = forecast.value, forecast.lo, forecast.hi
    if cell.cycle is None or not forecast.determined or value is None or lo is None or hi is None:
        return "is not determined by the fitted runs"
    return CheckedCell(
        run=cell.run,
        num_steps=cell.num_steps,
        num_draft_tokens=cell.num_draft_tokens,
        topk=cell.topk,
        batch_size=cell.batch_size,
        context_tokens=cell.context_tokens,
        measured_ms=ms_from_us(cell.cycle.us),
        predicted_ms=ms_from_us(value),
        lo_ms=ms_from_us(lo),
        hi_ms=ms_from_us(hi),
        error=value / cell.cycle.us - 1,
        inside=lo <= cell.cycle.us <= hi,
        extrapolated=forecast.extrapolated,
        draft_tp=cell.draft_tp if cell.num_steps > 0 else None,
        draft=_checked_draft(cell, draft),
        group=group_text(_key(group), with_draft=bool(group.other_drafts)),
    )


def _forecast(cell: Cell, group: GroupModel, fitted: Fitted) -> tuple[CycleForecast, DraftTime | None] | str:
    """Return the forecast of a cell and of its draft; at a draft TP not fitted, by the calibration."""
    size, fits = cell.draft_tp, {seen.other_draft_tp for seen in group.cells if seen.num_steps > 0}
    if cell.num_steps == 0 or size in (None, group.draft_tp) or size in fits:
        own = None if cell.num_steps == 0 or size == group.draft_tp else size
        at = setting_of(replace(cell, other_draft_tp=own))
        costs, mark = _own_costs(cell, fitted)
        made = cycle_at(fitted, at, costs)
        made = replace(made, extrapolated=(*made.extrapolated, mark)) if mark else made
        return made, draft_time(fitted, at, costs)
    if group.calibration is None or group.draft_tp is None or size is None:
        return f"has its draft at TP{size}, which was not fitted, and no calibration of its GPU was"
    found = draft_elsewhere(
        fitted,
        setting_of(cell),
        fitted.costs,
        group.calibration,
        sizes=(group.draft_tp, size),
        tp_size=group.tp_size,
    )
    if found is None:
        return f"has its draft at TP{size}, of which neither the fitted runs nor the calibration tell"
    return found.cycle, found.draft


def _own_costs(cell: Cell, fitted: Fitted) -> tuple[tuple[CollectiveCost, ...], str | None]:
    """Return the collectives of a checked cell, and a mark where they are others than the fitted ones.

    Where a run timed its own collectives, and they take so much longer or shorter that its server reduces in
    another way, the question is what the model makes of that: the what-if of `predict --allreduce-us`.
    """
    at = setting_of(cell)
    own = costs_of_cell(cell, fitted.costs)
    theirs, ours = cycle_wire_us(own, at), cycle_wire_us(fitted.costs, at)
    if min(theirs, ours) <= 0 or 1 / _ANOTHER_WAY < theirs / ours < _ANOTHER_WAY:
        return fitted.costs, None
    return own, f"its own collectives, {theirs / ours:.1f} times the fitted ones"


def _checked_draft(cell: Cell, draft: DraftTime | None) -> CheckedPhase | None:
    """Return draft and extend beside their forecast, None where one of them was not timed."""
    names = ("draft", "draft_extend") if cell.num_steps > 1 else ("draft_extend",)
    times = [cell.graph.get(name) or cell.stage.get(name) for name in names]
    known = [time.us for time in times if time is not None]
    if draft is None or len(known) < len(names):
        return None
    measured = sum(known)
    return CheckedPhase(
        measured_ms=ms_from_us(measured),
        predicted_ms=ms_from_us(draft.value),
        lo_ms=ms_from_us(draft.lo),
        hi_ms=ms_from_us(draft.hi),
        error=draft.value / measured - 1,
        inside=draft.lo <= measured <= draft.hi,
    )
