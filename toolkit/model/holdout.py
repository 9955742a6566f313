"""How well the fit predicts configurations it has not seen, and whether a straight line does as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log
from statistics import fmean, median

import numpy as np

from toolkit.model.cell import Cell, DesignKey
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.fit_cells import FitDetail, fit_cells
from toolkit.model.rows import setting_of
from toolkit.schema.cost import HoldOut

_FOLD_DRAWS = 60
_MOST_FOLDS = 60
_ENOUGH_TO_CALIBRATE = 5
_COVERED = 0.9
_MOST_STRETCH = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    error: float  # relative, signed
    inside: bool
    width: float
    stretch: float  # log error over the interval's half width on that side
    null_error: float | None
    plain: bool


def holdout(detail: FitDetail) -> tuple[HoldOut, dict[str, float]]:
    """Return errors on configurations left out one at a time, and the factors that intervals need.

    A configuration goes with all its replicates. Folds in which the rest does not determine it are
    skipped. A factor ("plain", "speculative") is the conformal 90 % quantile of log error over half
    width, between 1 and 2.5: one configuration far off is a misfit to see, not a width for all.
    """
    keys: dict[DesignKey, list[Cell]] = {}
    for cell in detail.cells:
        if cell.cycle is not None:
            keys.setdefault(cell.design_key, []).append(cell)
    picked = list(keys)[:: max(1, ceil(len(keys) / _MOST_FOLDS))]
    folds = [fold for key in picked if (fold := _fold(detail, keys, key)) is not None]
    if not folds:
        count = f"{len(keys)} configuration{'s' if len(keys) != 1 else ''}"
        note = f"{count}: none can be left out and still be predicted from the others"
        return HoldOut(note=note), {"plain": 1.0, "speculative": 1.0}
    errors = [abs(fold.error) for fold in folds]
    null = [fold for fold in folds if fold.null_error is not None]
    null_mape = fmean(abs(fold.null_error or 0.0) for fold in null) if null else None
    same = fmean(abs(fold.error) for fold in null) if null else None
    beaten = null_mape is None or same is None or same <= null_mape
    return (
        HoldOut(
            cells=len(folds),
            mape=fmean(errors),
            p90=float(np.quantile(errors, 0.9)),
            covered90=fmean(fold.inside for fold in folds),
            median_width=median(fold.width for fold in folds),
            null_mape=null_mape,
            null_cells=len(null),
            mape_on_null_cells=same,
            note="" if beaten else "the fit does not beat a straight line in the step count here",
        ),
        {
            "plain": _factor([fold.stretch for fold in folds if fold.plain]),
            "speculative": _factor([fold.stretch for fold in folds if not fold.plain]),
        },
    )


def _factor(stretches: Sequence[float]) -> float:
    if len(stretches) < _ENOUGH_TO_CALIBRATE:
        return 1.0
    index = min(ceil((len(stretches) + 1) * _COVERED), len(stretches)) - 1
    return min(max(1.0, sorted(stretches)[index]), _MOST_STRETCH)


def _fold(
    detail: FitDetail,
    keys: dict[DesignKey, list[Cell]],
    key: DesignKey,
) -> _Fold | None:
    left = [cell for cell in detail.cells if cell.design_key != key]
    if not any(cell.cycle for cell in left):
        return None
    fitted = detail.fitted
    rest = fit_cells(
        left,
        seed=fitted.seed,
        draws=_FOLD_DRAWS,
        costs=fitted.costs,
        runs=detail.runs,
        extremes=False,
    )
    forecast = cycle_at(rest.fitted, setting_of(keys[key][0]))
    if not forecast.determined or forecast.value is None:
        return None
    measured = _level(keys[key])
    return _scored(forecast, measured, _null_line(keys, key), plain=key[0] == 0)


def _scored(forecast: CycleForecast, measured: float, line: float | None, *, plain: bool) -> _Fold | None:
    value, lo, hi = forecast.value, forecast.lo, forecast.hi
    if value is None or lo is None or hi is None:
        return None
    missed = log(measured / value)
    half = log(hi / value) if missed > 0 else log(value / lo)
    return _Fold(
        error=value / measured - 1,
        inside=lo <= measured <= hi,
        width=(hi - lo) / value,
        stretch=abs(missed) / max(half, 1e-6),
        null_error=None if line is None else line / measured - 1,
        plain=plain,
    )


def _level(cells: Sequence[Cell]) -> float:
    """Return the geometric mean of the cycles of replicates, in us."""
    return exp(fmean(log(cell.cycle.us) for cell in cells if cell.cycle))


def _null_line(
    keys: dict[DesignKey, list[Cell]],
    key: DesignKey,
) -> float | None:
    """Return a straight line in the step count through the two nearest others at the same batch, in us."""
    if key[0] == 0:
        return None
    others = {
        other[0]: _level(cells)
        for other, cells in keys.items()
        if other[0] not in (0, key[0]) and other[2:] == key[2:]
    }
    if len(others) < 2:
        return None
    first, second = sorted(others, key=lambda steps: (abs(steps - key[0]), steps))[:2]
    slope = (others[second] - others[first]) / (second - first)
    return max(others[first] + slope * (key[0] - first), 1e-9)
