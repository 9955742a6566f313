"""The extreme coefficients that reproduce the data equally well: how wrong an open forecast can be.

Beside signs, facts bound them: verifying one token per request costs no less than a plain step of the
same batch, extending the draft by several tokens no less than one draft forward, and a host-bound cycle
is longer than its phases. A fact that the data contradicts is left out, the others stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from toolkit.model.cell import Cell, setting_of
from toolkit.model.identify import null_space, row_space
from toolkit.model.rows import Row
from toolkit.model.solve import Design, Matrix
from toolkit.model.terms import DRAFT_TERMS, PHASE_TERMS, Setting, Vector, cycle_vector, vector

_STEPS = (1, 2, 3, 4, 5, 6, 8, 10)
_MOST_BATCHES = 4
_DIGITS = 7  # of a coefficient over the largest one: closer vertices are one

Inequality = tuple[Vector, float]  # factors @ coefficients <= bound
Ratio = tuple[Vector, float, Vector, float]  # (first @ coefficients + constant) / (second @ ... + constant)
SeenCell = tuple[Setting, float | None]  # what was run, and its cycle in us where the host set it


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasible:
    """All non-negative coefficients (us) with `seen @ (norms * coefficients) = equal` that meet `facts`."""

    columns: tuple[str, ...]
    norms: Vector
    seen: Matrix
    equal: Vector
    facts: tuple[Inequality, ...]

    def least(self, objective: Vector) -> Vector | None:
        """Return the coefficients that minimise `objective`; None if there are none at all."""
        result = linprog(
            objective / self.norms,
            A_ub=np.array([factors / self.norms for factors, _ in self.facts]) if self.facts else None,
            b_ub=[bound for _, bound in self.facts] or None,
            A_eq=self.seen,
            b_eq=self.equal,
            bounds=(0, None),
            method="highs",
        )
        if result.status != 0:
            return None
        return np.asarray(np.maximum(np.asarray(result.x), 0.0) / self.norms)

    def least_ratio(self, ratio: Ratio, sign: float = 1.0) -> Vector | None:
        """Return the coefficients at the least ratio (the largest with `sign` -1), by Charnes and Cooper.

        With y = t x and the denominator t-scaled to 1 the ratio is linear in (y, t).
        """
        over, over_us, under, under_us = ratio
        size = max(float(np.abs(under / self.norms).max()), abs(under_us), 1e-9)
        facts = [np.append(factors / self.norms, -bound) / size for factors, bound in self.facts]
        result = linprog(
            sign * np.append(over / self.norms, over_us) / size,
            A_ub=np.array(facts) if facts else None,
            b_ub=np.zeros(len(facts)) if facts else None,
            A_eq=np.vstack(
                [np.column_stack([self.seen, -self.equal]), np.append(under / self.norms, under_us) / size]
            ),
            b_eq=np.append(np.zeros(len(self.seen)), 1.0),
            bounds=(0, None),
            method="highs",
        )
        found = np.asarray(result.x) if result.status == 0 else np.zeros(1)
        if found[-1] <= 0:
            return None
        return np.asarray(np.maximum(found[:-1] / found[-1], 0.0) / self.norms)

    def where(self, factors: Vector, value: float) -> Feasible:
        """Return those with `factors @ coefficients` = `value`."""
        scaled = factors / self.norms
        length = float(np.linalg.norm(scaled)) or 1.0
        return Feasible(
            columns=self.columns,
            norms=self.norms,
            seen=np.vstack([self.seen, scaled / length]),
            equal=np.append(self.equal, value / length),
            facts=self.facts,
        )


def vertices(
    design: Design, rows: Sequence[Row], cells: Sequence[Cell], columns: Sequence[str], solution: Vector
) -> Matrix:
    """Return extreme solutions, shape (vertices, columns), in us; none when the data leaves nothing open."""
    if not len(null_space(design)):
        return np.empty((0, len(columns)))
    floors = {row.cell: row.us for row in rows if row.kind == "floor"}
    seen = [(setting_of(cell), floors.get(index)) for index, cell in enumerate(cells)]
    found = extremes(feasible(row_space(design), design.norms, columns, solution, seen), seen)
    return found if len(found) else solution[None, :]


def feasible(
    rows: Matrix, norms: Vector, columns: Sequence[str], solution: Vector, cells: Sequence[SeenCell]
) -> Feasible:
    """Return what reproduces the data as well as `solution`: `rows` span what it sees, in scaled columns."""
    made = Feasible(columns=tuple(columns), norms=norms, seen=rows, equal=rows @ (norms * solution), facts=())
    return _with_compatible(made, [*_floors(cells, columns), *_facts(cells, columns)])


def extremes(
    within: Feasible,
    cells: Sequence[SeenCell],
    asked: Sequence[Vector] = (),
    ratios: Sequence[Ratio] = (),
) -> Matrix:
    """Return the extreme solutions of what forecasts ask for, `asked` and `ratios`: (points, columns)."""
    found = [
        within.least(sign * objective)
        for objective in [*_objectives(cells, within.columns), *asked]
        for sign in (1.0, -1.0)
    ]
    found += [within.least_ratio(ratio, sign) for ratio in ratios for sign in (1.0, -1.0)]
    points = [point for point in found if point is not None]
    return _distinct(np.array(points)) if points else np.empty((0, len(within.columns)))


def _with_compatible(within: Feasible, facts: Sequence[Inequality]) -> Feasible:
    """Return it with the facts that the data allows together, each beside those before it."""
    nothing = np.zeros(len(within.columns))
    for fact in facts:
        narrower = Feasible(
            columns=within.columns,
            norms=within.norms,
            seen=within.seen,
            equal=within.equal,
            facts=(*within.facts, fact),
        )
        if narrower.least(nothing) is not None:
            within = narrower
    return within


def _objectives(cells: Sequence[SeenCell], columns: Sequence[str]) -> list[Vector]:
    """Return what forecasts will ask for: cycles at other steps, their draft pass, each term alone."""
    wanted = list(np.eye(len(columns)))
    for batch, context in _situations(cells):
        for steps in _STEPS:
            at = Setting(
                num_steps=steps,
                num_draft_tokens=steps + 1,
                topk=1,
                batch_size=batch,
                context_tokens=context,
                shape=cells[0][0].shape,
            )
            wanted.append(cycle_vector(columns, at))
            wanted.append(vector(columns, DRAFT_TERMS, at))
    return wanted


def _situations(cells: Sequence[SeenCell]) -> list[tuple[int, int]]:
    """Return batch sizes with their shortest and longest context, few enough to be asked one by one."""
    contexts: dict[int, list[int]] = {}
    for at, _ in cells:
        contexts.setdefault(at.batch_size, []).append(at.context_tokens or 0)
    batches = sorted(contexts)
    if len(batches) > _MOST_BATCHES:
        batches = [batches[0], batches[len(batches) // 2], batches[-1]]
    return [(batch, end) for batch in batches for end in sorted({min(contexts[batch]), max(contexts[batch])})]


def _facts(cells: Sequence[SeenCell], columns: Sequence[str]) -> list[Inequality]:
    facts = []
    if "decode_us" in columns and "verify_us" in columns:
        plain = {at.batch_size for at, _ in cells if at.num_steps == 0 and (at.overlap or not _hidden(cells))}
        for batch in sorted(plain & {at.batch_size for at, _ in cells if at.num_steps > 0}):
            facts.append((_plain_less_verify(columns, batch), 0.0))
    if "draft_forward_us" in columns and "draft_extend_us" in columns:
        names = list(columns)
        facts.append(
            (
                np.array(
                    [float(name == "draft_forward_us") - float(name == "draft_extend_us") for name in names]
                ),
                0.0,
            )
        )
    return facts


def _hidden(cells: Sequence[SeenCell]) -> bool:
    """Say whether a speculative cycle hides host work, which a plain step without the scheduler does not."""
    return any(at.overlap for at, _ in cells if at.num_steps > 0)


def _plain_less_verify(columns: Sequence[str], batch: int) -> Vector:
    one = Setting(num_steps=1, num_draft_tokens=1, topk=1, batch_size=batch, context_tokens=None)
    plain = [*PHASE_TERMS["decode"]]
    verify = [*PHASE_TERMS["verify"]]
    if "host_plain_us" not in columns:  # then `decode_us` holds the host's time too
        verify.append("host_us")
    return vector(columns, plain, one) - vector(columns, verify, one)


def _floors(cells: Sequence[SeenCell], columns: Sequence[str]) -> list[Inequality]:
    """A host-bound cycle is longer than its GPU phases."""
    return [(cycle_vector(columns, at), us) for at, us in cells if us is not None]


def _distinct(points: Matrix) -> Matrix:
    """Return points that differ, in a fixed order."""
    size = float(np.abs(points).max()) or 1.0
    _, index = np.unique(np.round(points / size, _DIGITS), axis=0, return_index=True)
    return np.asarray(points[np.sort(index)])
