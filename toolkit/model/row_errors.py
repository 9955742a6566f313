"""How far rows may lie from the fit: between runs, and as far as they were seen to lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.model.rows import Family, Row
from toolkit.model.solve import design_of, lack_of_fit, student_widening
from toolkit.model.spread import PRIOR_DOF, RunSpreads
from toolkit.model.terms import Vector

_LARGEST_SPREAD = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RowErrors:
    """Relative spread of each family's rows, and the same widened for few degrees of freedom."""

    spreads: dict[Family, float]
    widened: dict[Family, float]


def row_errors(rows: Sequence[Row], solution: Vector, runs: RunSpreads) -> RowErrors:
    """Return the spread between runs, multiplied where a family's rows miss the fit by more."""
    design = design_of(rows, between(runs))
    spreads: dict[Family, float] = {}
    widened: dict[Family, float] = {}
    for family, run in runs.items():
        lack, dof = lack_of_fit(design, rows, solution, family)
        spreads[family] = min(run.spread * lack, _LARGEST_SPREAD)
        widened[family] = spreads[family] * student_widening(PRIOR_DOF + run.dof + dof)
    return RowErrors(spreads=spreads, widened=widened)


def between(runs: RunSpreads) -> dict[Family, float]:
    """Return the relative spread between runs by family."""
    return {family: run.spread for family, run in runs.items()}
