"""Weighted non-negative least squares on relative errors, and seeded refits for its intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import stdtrit

from toolkit.model.rows import Family, Row
from toolkit.model.terms import Vector

Matrix = NDArray[np.float64]
# a pull towards zero that only matters along directions the data says nothing about
_RIDGE = 1e-5
_NORMAL_95 = 1.6448536269514722


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Rows over columns, each row divided by its error, each column by its norm.

    `matrix @ (norms * coefficients)` is the measured time in standard errors.
    """

    matrix: Matrix
    target: Vector
    norms: Vector
    errors: Vector  # absolute standard error of each row, us
    cells: NDArray[np.int64]


def design_of(rows: Sequence[Row], spreads: Mapping[Family, float]) -> Design:
    """Return the weighted, column-scaled design of `rows`, with the run-to-run spread of each family."""
    factors = np.array([row.factors for row in rows])
    errors = np.array([row.total_us * sqrt(row.se**2 + spreads[row.family] ** 2) for row in rows])
    weighted = factors / errors[:, None]
    norms = np.sqrt((weighted**2).sum(axis=0))
    norms[norms == 0] = 1.0
    return Design(
        matrix=weighted / norms,
        target=np.array([row.us for row in rows]) / errors,
        norms=norms,
        errors=errors,
        cells=np.array([row.cell for row in rows]),
    )


def solve(design: Design, target: Vector | None = None) -> Vector:
    """Return non-negative coefficients in us."""
    return np.asarray(solve_all(design, (design.target if target is None else target)[None, :])[0])


def solve_all(design: Design, targets: Matrix) -> Matrix:
    """Return non-negative coefficients in us for each row of targets."""
    columns = design.matrix.shape[1]
    stacked = np.vstack([design.matrix, _RIDGE * np.eye(columns)])
    wanted = np.hstack([targets, np.zeros((len(targets), columns))])
    return np.array([nnls(stacked, one)[0] for one in wanted]) / design.norms


def lack_of_fit(design: Design, rows: Sequence[Row], solution: Vector, family: Family) -> tuple[float, int]:
    """Return how many times larger a family's residuals are than their errors (at least 1), and their dof."""
    chosen = np.array([row.family == family for row in rows])
    part = design.matrix[chosen]
    if not len(part):
        return 1.0, 0
    dof = len(part) - int(np.linalg.matrix_rank(part))
    if dof <= 0:
        return 1.0, 0
    residual = part @ (design.norms * solution) - design.target[chosen]
    return max(1.0, sqrt(float(residual @ residual) / dof)), dof


def cycles_lack(design: Design, rows: Sequence[Row], solution: Vector, family: Family, dof: int) -> float:
    """Return the same of the rows that are whole cycles, each with its share of the family's `dof`."""
    count = sum(row.family == family for row in rows)
    chosen = np.array([row.family == family and row.kind in ("cycle", "floor") for row in rows])
    if dof <= 0 or not chosen.any():
        return 1.0
    residual = design.matrix[chosen] @ (design.norms * solution) - design.target[chosen]
    return max(1.0, sqrt(float(residual @ residual) / (chosen.sum() * dof / count)))


def student_widening(dof: int) -> float:
    """Return how much wider a 90 % Student-t interval is than a normal one."""
    return float(stdtrit(max(dof, 1), 0.95)) / _NORMAL_95


def refits(
    design: Design, rows: Sequence[Row], spreads: Mapping[Family, float], count: int, seed: int
) -> Matrix:
    """Return refits to times perturbed by the error of their run and their own, shape (count, columns).

    Every time of one cell moves with its run by `spreads`; each also moves by its own standard error.
    """
    rng = np.random.default_rng(seed)
    totals = np.array([row.total_us for row in rows])
    own = np.array([row.se for row in rows])
    between = np.array([spreads[row.family] for row in rows])
    of_run = rng.standard_normal((count, int(design.cells.max()) + 1))[:, design.cells]
    of_row = rng.standard_normal((count, len(rows)))
    moved = totals * (between * of_run + own * of_row) / design.errors
    return solve_all(design, np.maximum(design.target + moved, 0.0))
