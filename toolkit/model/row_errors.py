"""How far rows may lie from the fit: between runs, and as far as they were seen to lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.model.rows import Family, Row
from toolkit.model.solve import cycles_lack, design_of, lack_of_fit, student_widening
from toolkit.model.spread import PRIOR_DOF, RunSpreads
from toolkit.model.terms import Vector

_LARGEST_SPREAD = 0.3
# An assumed spread is between 1 and 5 %: root mean square over that range, each doubling as likely, over 2 %
_ASSUMED_WIDENING = 1.37


@dataclass(frozen=True, slots=True, kw_only=True)
class RowErrors:
    """Relative spread of each family's rows, the same of its cycles, and widened for few degrees of freedom.

    Phases may miss the fit by more than the cycles that they add up to.
    """

    spreads: dict[Family, float]
    cycles: dict[Family, float]
    widened: dict[Family, float]


def row_errors(rows: Sequence[Row], solution: Vector, runs: RunSpreads) -> RowErrors:
    """Return the spread between runs, multiplied where a family's rows miss the fit by more."""
    design = design_of(rows, between(runs))
    spreads: dict[Family, float] = {}
    cycles: dict[Family, float] = {}
    widened: dict[Family, float] = {}
    for family, run in runs.items():
        lack, dof = lack_of_fit(design, rows, solution, family)
        spreads[family] = min(run.spread * lack, _LARGEST_SPREAD)
        cycles[family] = min(run.spread * cycles_lack(design, rows, solution, family, dof), spreads[family])
        widening = student_widening(PRIOR_DOF + run.dof + dof)
        if not run.dof:
            widening = min(widening, _ASSUMED_WIDENING)
        widened[family] = spreads[family] * widening
    return RowErrors(spreads=spreads, cycles=cycles, widened=widened)


def between(runs: RunSpreads) -> dict[Family, float]:
    """Return the relative spread between runs by family."""
    return {family: run.spread for family, run in runs.items()}
