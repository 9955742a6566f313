"""A model against runs the fit never saw."""

from __future__ import annotations

from collections.abc import Collection
from statistics import fmean

from toolkit.errors import UndeterminedError
from toolkit.model.cell import Cell, GroupKey, setting_of
from toolkit.model.cells import cells_of
from toolkit.model.cycle_time import cycle_at
from toolkit.model.fitted import Fitted
from toolkit.model.grouping import group_for, group_text
from toolkit.model.recall import fitted_of
from toolkit.schema.cost import CheckedCell, CheckReport, CostModel
from toolkit.schema.inspection import Inspection
from toolkit.units import ms_from_us


def check_model(model: CostModel, inspection: Inspection, path: str) -> CheckReport:
    """Return predicted against measured cycles; `path` names the model.

    UndeterminedError when not one measured cycle belongs to a fitted group and is determined.
    """
    cells, warnings = cells_of(inspection)
    groups = {
        GroupKey(group.engine, group.model, group.gpu, group.tp_size, group.draft_model): group
        for group in model.groups
    }
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
        made = _checked(cell, fitted_of(group, model.seed))
        if made is None:
            warnings.append(f"{cell.run}: {cell.setting_text} is not determined by the fitted runs")
        else:
            checked.append(made)
    if not checked:
        raise UndeterminedError(
            f"no measured cycle of these runs can be compared with {path}"
            f"{': ' + warnings[0] if warnings else ''}; give runs of a group that it holds"
        )
    return CheckReport(
        model=path,
        configurations=tuple(checked),
        mape=fmean(abs(cell.error) for cell in checked),
        covered90=fmean(cell.inside for cell in checked),
        warnings=tuple(dict.fromkeys([*inspection.warnings, *warnings])),
    )


def _named(key: GroupKey, groups: Collection[GroupKey]) -> str:
    return group_text(key, with_draft=any(one[:4] == key[:4] for one in groups))


def _checked(cell: Cell, fitted: Fitted) -> CheckedCell | None:
    forecast = cycle_at(fitted, setting_of(cell))
    value, lo, hi = forecast.value, forecast.lo, forecast.hi
    if cell.cycle is None or not forecast.determined or value is None or lo is None or hi is None:
        return None
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
    )
