"""One group's cells to a fit: columns, rows, solution, its null space, extremes and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.model.cell import Cell
from toolkit.model.collective_costs import collective_costs
from toolkit.model.columns import columns_of
from toolkit.model.feasible import vertices
from toolkit.model.fitted import Fitted, support_of
from toolkit.model.host_bound import host_bound_flags
from toolkit.model.identify import null_space
from toolkit.model.rows import Row, rows_of
from toolkit.model.solve import Design, design_of, lack_of_fit, refits, solve, student_widening
from toolkit.model.spread import PRIOR_DOF, run_spread
from toolkit.schema.cost import CollectiveCost, Noise

_LARGEST_SPREAD = 0.3


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
    design = design_of(rows, between)
    solution = solve(design)
    null = null_space(design)
    lack, residual_dof = lack_of_fit(design, solution, len(columns) - len(null))
    between = min(between * lack, _LARGEST_SPREAD)
    dof = PRIOR_DOF + replicate_dof + residual_dof
    drawn = refits(design, rows, between, student_widening(dof), draws, seed)
    fitted = Fitted(
        engine=cells[0].engine,
        columns=columns,
        norms=design.norms,
        solution=solution,
        null=null,
        vertices=vertices(design, rows, cells, columns, solution),
        draws=drawn,
        costs=tuple(costs),
        noise=Noise(run_spread=between, replicate_dof=replicate_dof, dof=dof),
        support=support_of(cells),
        seed=seed,
    )
    return FitDetail(
        fitted=fitted, cells=tuple(cells), host_bound=tuple(flags), rows=tuple(rows), design=design
    )


def _without_empty(columns: tuple[str, ...], rows: list[Row]) -> tuple[tuple[str, ...], list[Row]]:
    """Drop columns that no row touches: a term nobody measured is absent, not zero."""
    touched = np.any(np.array([row.factors for row in rows]) != 0, axis=0)
    if touched.all():
        return columns, rows
    kept = [
        Row(
            cell=row.cell,
            kind=row.kind,
            us=row.us,
            total_us=row.total_us,
            se=row.se,
            factors=row.factors[touched],
        )
        for row in rows
    ]
    return tuple(name for name, used in zip(columns, touched, strict=True) if used), kept
