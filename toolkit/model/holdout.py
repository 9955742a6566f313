"""How well the fit predicts configurations it has not seen, and whether a straight line does as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log
from statistics import fmean, median

import numpy as np

from toolkit.model.cell import Cell, DesignKey, setting_of
from toolkit.model.cycle_time import cycle_at
from toolkit.model.fit_cells import FitDetail, fit_cells
from toolkit.model.fitted import Fitted
from toolkit.model.terms import Setting
from toolkit.schema.cost import HoldOut

_FOLD_DRAWS = 60
_MOST_FOLDS = 60
_ENOUGH_TO_CALIBRATE = 5
_COVERED = 0.9
_LEAST_STRETCH, _MOST_STRETCH = 0.35, 2.5
_ENOUGH_TO_NARROW = 12
_KINDS = ("plain", "speculative")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """One configuration left out: `fitted` is the fit of the others, its intervals not yet widened."""

    fitted: Fitted
    at: Setting
    measured: float  # us
    error: float  # relative, signed
    stretch: float  # log error over the interval's half width on that side
    null_error: float | None
    runs: int

    @property
    def plain(self) -> bool:
        return self.at.num_steps == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """The signed relative error on one configuration left out, and how many runs it has."""

    at: Setting
    error: float
    runs: int


def holdout(detail: FitDetail) -> tuple[HoldOut, dict[str, float], tuple[Miss, ...]]:
    """Return errors on configurations left out one at a time, the factors that intervals need, each error.

    A configuration goes with all its replicates. Folds in which the rest does not determine it are
    skipped. A factor ("plain", "speculative") is the conformal 90 % quantile of log error over half
    width, between 1 and 2.5: one configuration far off is a misfit to see, not a width for all.
    Coverage and width are of intervals widened by the factor of the other folds.
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
        return HoldOut(note=note), dict.fromkeys(_KINDS, 1.0), ()
    errors = [abs(fold.error) for fold in folds]
    ends = _widened(folds)
    null = [fold for fold in folds if fold.null_error is not None]
    null_mape = fmean(abs(fold.null_error or 0.0) for fold in null) if null else None
    same = fmean(abs(fold.error) for fold in null) if null else None
    beaten = null_mape is None or same is None or same <= null_mape
    return (
        HoldOut(
            cells=len(folds),
            mape=fmean(errors),
            p90=float(np.quantile(errors, 0.9)),
            covered90=fmean(lo <= fold.measured <= hi for fold, (_, lo, hi) in zip(folds, ends, strict=True)),
            median_width=median((hi - lo) / value for value, lo, hi in ends),
            null_mape=null_mape,
            null_cells=len(null),
            mape_on_null_cells=same,
            note="" if beaten else "the fit does not beat a straight line in the step count here",
        ),
        {
            kind: _factor([fold.stretch for fold in folds if fold.plain == (kind == "plain")])
            for kind in _KINDS
        },
        tuple(Miss(at=fold.at, error=fold.error, runs=fold.runs) for fold in folds),
    )


def _widened(folds: Sequence[_Fold]) -> list[tuple[float, float, float]]:
    """Return value and ends of each left-out interval in us, widened as all other folds ask for."""
    made = []
    for fold in folds:
        others = [other.stretch for other in folds if other is not fold and other.plain == fold.plain]
        scale = _factor(others)
        noise = replace(fold.fitted.noise, plain_scale=scale, speculative_scale=scale)
        forecast = cycle_at(replace(fold.fitted, noise=noise), fold.at)
        assert forecast.value is not None and forecast.lo is not None and forecast.hi is not None
        made.append((forecast.value, forecast.lo, forecast.hi))
    return made


def _factor(stretches: Sequence[float]) -> float:
    if len(stretches) < _ENOUGH_TO_CALIBRATE:
        return 1.0
    index = min(ceil((len(stretches) + 1) * _COVERED), len(stretches)) - 1
    least = _LEAST_STRETCH if len(stretches) >= _ENOUGH_TO_NARROW else 1.0
    return min(max(least, sorted(stretches)[index]), _MOST_STRETCH)


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
        book=detail.book,
    )
    at, measured = setting_of(keys[key][0]), _level(keys[key])
    forecast = cycle_at(rest.fitted, at)
    value, lo, hi = forecast.value, forecast.lo, forecast.hi
    if not forecast.determined or value is None or lo is None or hi is None:
        return None
    line = _null_line(keys, key)
    missed = log(measured / value)
    half = log(hi / value) if missed > 0 else log(value / lo)
    return _Fold(
        fitted=rest.fitted,
        at=at,
        measured=measured,
        error=value / measured - 1,
        stretch=abs(missed) / max(half, 1e-6),
        null_error=None if line is None else line / measured - 1,
        runs=len(keys[key]),
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
