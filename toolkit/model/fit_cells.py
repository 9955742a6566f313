"""One group's cells to a fit: columns, rows, solution, its null space, extremes and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.model.cell import Cell
from toolkit.model.collective_costs import collective_costs
from toolkit.model.columns import columns_of
from toolkit.model.feasible import vertices
from toolkit.model.fitted import Fitted, support_of
from toolkit.model.host_bound import host_bound_flags
from toolkit.model.identify import null_space
from toolkit.model.rows import Family, Row, rows_of
from toolkit.model.solve import Design, design_of, lack_of_fit, refits, solve, student_widening
from toolkit.model.spread import PRIOR_DOF, run_spread
from toolkit.model.terms import Vector
from toolkit.schema.cost import CollectiveCost, Noise

_LARGEST_SPREAD = 0.3
_FAMILIES: tuple[Family, ...] = ("plain", "speculative", "floor")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDetail:
    """A fit with the rows it came from."""

    fitted: Fitted
    cells: tuple[Cell, ...]
    host_bound: tuple[bool, ...]
    rows: tuple[Row, ...]
    design: Design


def fit_cells(
    cells: Sequence[Cell],
    *,
    seed: int,
    draws: int,
    costs: Sequence[CollectiveCost] | None = None,
    spread: tuple[float, int] | None = None,
) -> FitDetail:
    """Return the fit of one group's cells; at least one row is needed (ValueError otherwise)."""
    costs = collective_costs(cells) if costs is None else tuple(costs)
    flags = host_bound_flags(cells)
    columns = columns_of(cells, flags)
    rows = rows_of(cells, columns, flags, costs)
    if not rows:
        raise ValueError("fit of no times")
    columns, rows = _without_empty(columns, rows)
    between, replicate_dof = run_spread(cells) if spread is None else spread
    solution = solve(design_of(rows, dict.fromkeys(_FAMILIES, between)))
    spreads, widened = _spreads(rows, solution, between, replicate_dof)
    design = design_of(rows, spreads)
    fitted = Fitted(
        engine=cells[0].engine,
        columns=columns,
        norms=design.norms,
        solution=solution,
        null=null_space(design),
        vertices=vertices(design, rows, cells, columns, solution),
        draws=refits(design, rows, widened, draws, seed),
        costs=tuple(costs),
        noise=Noise(
            run_spread=between,
            replicate_dof=replicate_dof,
            plain_spread=spreads["plain"],
            speculative_spread=spreads["speculative"],
            floor_spread=spreads["floor"],
        ),
        support=support_of(cells),
        seed=seed,
    )
    return FitDetail(
        fitted=fitted, cells=tuple(cells), host_bound=tuple(flags), rows=tuple(rows), design=design
    )


def _spreads(
    rows: Sequence[Row], solution: Vector, between: float, replicate_dof: int
) -> tuple[dict[Family, float], dict[Family, float]]:
    """Return the relative spread of each family's rows, and the same widened for few degrees of freedom."""
    design = design_of(rows, dict.fromkeys(_FAMILIES, between))
    spreads: dict[Family, float] = {}
    widened: dict[Family, float] = {}
    for family in _FAMILIES:
        lack, dof = lack_of_fit(design, rows, solution, family)
        spreads[family] = min(between * lack, _LARGEST_SPREAD)
        widened[family] = spreads[family] * student_widening(PRIOR_DOF + replicate_dof + dof)
    return spreads, widened


def _without_empty(columns: tuple[str, ...], rows: list[Row]) -> tuple[tuple[str, ...], list[Row]]:
    """Drop columns that no row touches: a term nobody measured is absent, not zero."""
    touched = np.any(np.array([row.factors for row in rows]) != 0, axis=0)
    if touched.all():
        return columns, rows
    kept = [replace(row, factors=row.factors[touched]) for row in rows]
    return tuple(name for name, used in zip(columns, touched, strict=True) if used), kept
