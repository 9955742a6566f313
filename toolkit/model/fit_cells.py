"""One group's cells to a fit: columns, rows, solution, its null space, extremes and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from toolkit.model.cell import Cell, setting_of
from toolkit.model.collective_costs import collective_costs, costs_of_cell, cycle_wire_us
from toolkit.model.columns import PER_REQUEST, columns_of
from toolkit.model.feasible import vertices
from toolkit.model.fitted import Fitted, support_of
from toolkit.model.host_bound import highest_floor_us, host_bound_flags
from toolkit.model.identify import null_space
from toolkit.model.intercept import intercept_facts, possible
from toolkit.model.residuals import Measured, with_residuals
from toolkit.model.row_errors import RowErrors, between, row_errors
from toolkit.model.rows import Family, Row, RowBook, rows_of
from toolkit.model.solve import Design, Matrix, design_of, refits, solve
from toolkit.model.spread import RunSpreads, run_spreads
from toolkit.model.terms import Vector
from toolkit.schema.cost import CollectiveCost, Noise

_OTHERS = 1 << 20  # added to the seed for refits in place of those that cannot be
_BETTER = 0.9  # of the misfit: a tie is physics' to decide, and keys of all requests are read
_CONTEXT_PHASES: dict[str, Family] = {"decode": "plain", "verify": "speculative"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDetail:
    """A fit with the rows it came from."""

    fitted: Fitted
    cells: tuple[Cell, ...]
    host_bound: tuple[bool, ...]
    rows: tuple[Row, ...]
    design: Design
    runs: RunSpreads
    book: RowBook


def fit_cells(
    cells: Sequence[Cell],
    *,
    seed: int,
    draws: int,
    costs: Sequence[CollectiveCost] | None = None,
    runs: RunSpreads | None = None,
    extremes: bool = True,
    book: RowBook | None = None,
) -> FitDetail:
    """Return the fit of one group's cells; at least one row is needed (ValueError otherwise).

    Without `extremes` what the data leaves open has no range. `book` holds rows of an earlier fit.
    """
    book = RowBook() if book is None else book
    costs = collective_costs(cells) if costs is None else tuple(costs)
    flags = host_bound_flags(cells)
    runs = run_spreads(cells) if runs is None else runs
    columns = _best_columns(cells, flags, costs, runs, book)
    rows = rows_of(cells, columns, flags, costs, book)
    if not rows:
        raise ValueError("fit of no times")
    columns, rows = _without_empty(columns, rows)
    solution = solve(design_of(rows, between(runs)))
    errors = row_errors(rows, solution, runs)
    design = design_of(rows, errors.spreads)
    again = partial(refits, design, rows, errors.widened)
    highest, none = highest_floor_us(cells, flags), np.empty((0, len(columns)))
    fitted = Fitted(
        engine=cells[0].engine,
        columns=columns,
        norms=design.norms,
        solution=_below(solution, columns, highest),
        null=null_space(design),
        vertices=vertices(design, rows, cells, columns, solution) if extremes else none,
        draws=_below(_refits(cells, columns, costs, solution, again, draws, seed), columns, highest),
        costs=tuple(costs),
        noise=_noise(rows, errors, runs),
        support=support_of(cells),
        seed=seed,
    )
    return FitDetail(
        fitted=with_residuals(fitted, _measured(cells, fitted.costs)),
        cells=tuple(cells),
        host_bound=tuple(flags),
        rows=tuple(rows),
        design=design,
        runs=runs,
        book=book,
    )


def _refits(
    cells: Sequence[Cell],
    columns: Sequence[str],
    costs: Sequence[CollectiveCost],
    solution: Vector,
    refit: Callable[[int, int], Matrix],
    count: int,
    seed: int,
) -> Matrix:
    """Return refits that a server can have; those that cannot be are made again."""
    facts = intercept_facts(cells, columns, costs)
    return possible(facts, solution, refit(count, seed), lambda more: refit(more, seed + _OTHERS))


def _measured(cells: Sequence[Cell], pooled: Sequence[CollectiveCost]) -> list[Measured]:
    return [(setting_of(cell), cell.cycle.us, own_wire_us(cell, pooled)) for cell in cells if cell.cycle]


def _noise(rows: Sequence[Row], errors: RowErrors, runs: RunSpreads) -> Noise:
    return Noise(
        run_spread=max(runs[row.family].spread for row in rows),
        replicate_dof=runs["plain"].dof + runs["speculative"].dof,
        plain_spread=errors.cycles["plain"],
        speculative_spread=errors.cycles["speculative"],
        floor_spread=errors.cycles["floor"],
        plain_run_spread=runs["plain"].spread,
        speculative_run_spread=runs["speculative"].spread,
    )


def own_wire_us(cell: Cell, pooled: Sequence[CollectiveCost]) -> float:
    """Return the wire time in a cell's cycle in us, by its own trace where it has one."""
    return cycle_wire_us(costs_of_cell(cell, pooled), setting_of(cell))


def _below(points: Matrix, columns: Sequence[str], highest_us: float) -> Matrix:
    """Return coefficients with the host's floor no higher than `highest_us`; nothing else shares its rows."""
    if "host_cycle_us" not in columns:
        return points
    at = list(columns).index("host_cycle_us")
    points = points.copy()
    points[..., at] = np.minimum(points[..., at], highest_us)
    return points


def _best_columns(
    cells: Sequence[Cell],
    flags: Sequence[bool],
    costs: tuple[CollectiveCost, ...],
    runs: RunSpreads,
    book: RowBook,
) -> tuple[str, ...]:
    """Return the columns with the context terms that fit best: of one request, of the batch, or in waves.

    Where memory bandwidth bounds attention its time grows with the keys of all requests; where one
    request's keys are read by too few blocks, with the longest, as often as the requests fill the GPU.
    The phases share no coefficient, so each chooses alone.
    """
    chosen = dict(PER_REQUEST)
    for phase, family in _CONTEXT_PHASES.items():
        misfit = {}
        for form in ("kv", "context"):
            columns = columns_of(cells, flags, {**chosen, phase: form})
            if f"{phase}_{form}_us" not in columns:
                break
            misfit[form] = _misfit(rows_of(cells, columns, flags, costs, book), family, runs)
        if misfit:
            better = misfit["context"] < _BETTER * misfit["kv"] - 1.0  # one squared standard error
            chosen[phase] = "context" if better else "kv"
        if phase == "verify" and misfit and cells[0].shape.wave_requests is not None:
            waves = columns_of(cells, flags, {**chosen, phase: "waves"})
            if _misfit(rows_of(cells, waves, flags, costs, book), family, runs) <= misfit[chosen[phase]]:
                chosen[phase] = "waves"
    return columns_of(cells, flags, chosen)


def _misfit(rows: list[Row], family: Family, runs: RunSpreads) -> float:
    design = design_of(rows, between(runs))
    residual = design.matrix @ (design.norms * solve(design)) - design.target
    return float(sum(error**2 for row, error in zip(rows, residual, strict=True) if row.family == family))


def misfit_of(cells: Sequence[Cell]) -> float:
    """Return the squared residuals of a fit of the cells, in the errors that their runs have."""
    costs, flags, runs, book = collective_costs(cells), host_bound_flags(cells), run_spreads(cells), RowBook()
    rows = rows_of(cells, _best_columns(cells, flags, costs, runs, book), flags, costs, book)
    return sum(_misfit(rows, family, runs) for family in runs) if rows else 0.0


def _without_empty(columns: tuple[str, ...], rows: list[Row]) -> tuple[tuple[str, ...], list[Row]]:
    """Drop columns that no row touches: a term nobody measured is absent, not zero."""
    touched = np.any(np.array([row.factors for row in rows]) != 0, axis=0)
    if touched.all():
        return columns, rows
    kept = [replace(row, factors=row.factors[touched]) for row in rows]
    return tuple(name for name, used in zip(columns, touched, strict=True) if used), kept
