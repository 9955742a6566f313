"""The extreme coefficients that reproduce the data equally well: how wrong an open forecast can be.

Beside signs, facts bound them: verifying one token per request costs no less than a plain step of the
same batch, extending the draft by several tokens no less than one draft forward, and a host-bound cycle
is longer than its phases. A fact that the data contradicts is left out, the others stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import linprog

from toolkit.model.cell import Cell
from toolkit.model.identify import null_space, row_space
from toolkit.model.rows import Row, setting_of
from toolkit.model.solve import Design, Matrix
from toolkit.model.terms import PHASE_TERMS, Setting, Vector, cycle_vector, vector

_STEPS = (1, 2, 3, 4, 5, 6, 8, 10)
_MOST_BATCHES = 4
_DIGITS = 7  # of a coefficient over the largest one: closer vertices are one


def vertices(
    design: Design, rows: Sequence[Row], cells: Sequence[Cell], columns: Sequence[str], solution: Vector
) -> Matrix:
    """Return extreme solutions, shape (vertices, columns), in us; none when the data leaves nothing open."""
    if not len(null_space(design)):
        return np.empty((0, len(columns)))
    seen = row_space(design)
    equal = seen @ (design.norms * solution)
    facts = _compatible([*_floors(rows, cells, columns), *_facts(cells, columns)], seen, equal, design)
    found = [
        point
        for objective in _objectives(cells, columns)
        for sign in (1.0, -1.0)
        if (point := _extreme(sign * objective, seen, equal, facts, design)) is not None
    ]
    return _distinct(np.array(found)) if found else solution[None, :]


Inequality = tuple[Vector, float]  # factors @ coefficients <= bound


def _compatible(facts: Sequence[Inequality], seen: Matrix, equal: Vector, design: Design) -> list[Inequality]:
    """Return the facts that the data allows together, each beside those before it."""
    kept: list[Inequality] = []
    nothing = np.zeros(seen.shape[1])
    for fact in facts:
        if _extreme(nothing, seen, equal, [*kept, fact], design) is not None:
            kept.append(fact)
    return kept


def _extreme(
    objective: Vector, seen: Matrix, equal: Vector, inequalities: Sequence[Inequality], design: Design
) -> Vector | None:
    """Return the coefficients that minimise `objective`; all of it in column-scaled coefficients."""
    bounds = [bound for _, bound in inequalities]
    result = linprog(
        objective / design.norms,
        A_ub=np.array([factors / design.norms for factors, _ in inequalities]) if inequalities else None,
        b_ub=bounds or None,
        A_eq=seen,
        b_eq=equal,
        bounds=(0, None),
        method="highs",
    )
    if result.status != 0:
        return None
    return np.asarray(np.maximum(np.asarray(result.x), 0.0) / design.norms)


def _objectives(cells: Sequence[Cell], columns: Sequence[str]) -> list[Vector]:
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
            )
            wanted.append(cycle_vector(columns, at))
            wanted.append(vector(columns, (*PHASE_TERMS["draft"], *PHASE_TERMS["draft_extend"]), at))
    return wanted


def _situations(cells: Sequence[Cell]) -> list[tuple[int, int]]:
    """Return batch sizes with their shortest and longest context, few enough to be asked one by one."""
    contexts: dict[int, list[int]] = {}
    for cell in cells:
        contexts.setdefault(cell.padded_batch_size, []).append(cell.context_tokens or 0)
    batches = sorted(contexts)
    if len(batches) > _MOST_BATCHES:
        batches = [batches[0], batches[len(batches) // 2], batches[-1]]
    return [(batch, end) for batch in batches for end in sorted({min(contexts[batch]), max(contexts[batch])})]


def _facts(cells: Sequence[Cell], columns: Sequence[str]) -> list[Inequality]:
    facts = []
    if "decode_us" in columns and "verify_us" in columns:
        plain = {cell.padded_batch_size for cell in cells if cell.num_steps == 0}
        for batch in sorted(plain & {cell.padded_batch_size for cell in cells if cell.num_steps > 0}):
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


def _plain_less_verify(columns: Sequence[str], batch: int) -> Vector:
    one = Setting(num_steps=1, num_draft_tokens=1, topk=1, batch_size=batch, context_tokens=None)
    plain = [*PHASE_TERMS["decode"]]
    verify = [*PHASE_TERMS["verify"]]
    if "host_plain_us" not in columns:  # then `decode_us` holds the host's time too
        verify.append("host_us")
    return vector(columns, plain, one) - vector(columns, verify, one)


def _floors(rows: Iterable[Row], cells: Sequence[Cell], columns: Sequence[str]) -> list[Inequality]:
    """A host-bound cycle is longer than its GPU phases."""
    return [
        (cycle_vector(columns, setting_of(cells[row.cell])), row.us) for row in rows if row.kind == "floor"
    ]


def _distinct(points: Matrix) -> Matrix:
    """Return points that differ, in a fixed order."""
    size = float(np.abs(points).max()) or 1.0
    _, index = np.unique(np.round(points / size, _DIGITS), axis=0, return_index=True)
    return np.asarray(points[np.sort(index)])
