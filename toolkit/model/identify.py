"""What the data cannot tell: null directions of the design, named by the terms that trade in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.model.solve import Design, Matrix
from toolkit.model.terms import Vector
from toolkit.schema.cost import Identifiability

_NULL = 1e-6  # of the largest singular value
_NEARLY_NULL = 1 / 30
_LARGEST_CONDITION = 1e12
_LAST = ("verify_us", "verify_token_us")


def null_space(design: Design) -> Matrix:
    """Return rows spanning the directions that no row sees, in column-scaled coefficients."""
    values, directions = _directions(design)
    return np.asarray(directions[_rank(values) :])


def row_space(design: Design) -> Matrix:
    """Return rows spanning the directions that the rows see, in column-scaled coefficients."""
    values, directions = _directions(design)
    return np.asarray(directions[: _rank(values)])


def _directions(design: Design) -> tuple[Vector, Matrix]:
    """Return the singular values and all right singular vectors: those of the small factor of a QR."""
    small = np.linalg.qr(design.matrix, mode="r")
    _, values, directions = np.linalg.svd(small, full_matrices=True)
    return values, np.asarray(directions)


def _rank(values: Vector) -> int:
    return int((values > _NULL * values[0]).sum())


def identifiability(design: Design, columns: Sequence[str]) -> Identifiability:
    """Return rank, condition number, and the pairs of terms that trade for each other."""
    values, directions = _directions(design)
    rank = _rank(values)
    least = float(values[-1]) if len(values) == len(columns) else 0.0
    condition = min(float(values[0]) / max(least, float(values[0]) / _LARGEST_CONDITION), _LARGEST_CONDITION)
    weak = [directions[i] for i in range(rank) if values[i] < _NEARLY_NULL * values[0]]
    weak += list(_sparse(directions[rank:], columns))
    pairs: dict[tuple[str, str], None] = {}
    for direction in weak:
        pairs[_pair(direction, columns)] = None
    return Identifiability(
        rank=rank, columns=len(columns), condition=round(condition, 3), confounded=tuple(pairs)
    )


def _sparse(space: Matrix, columns: Sequence[str]) -> Matrix:
    """Return null directions of as few terms as possible: each trades a term with the verify forward."""
    order = sorted(range(len(columns)), key=lambda index: columns[index] in _LAST)
    back = np.argsort(order)
    return np.asarray(_echelon(np.asarray(space)[:, order])[:, back])


def _echelon(space: Matrix) -> Matrix:
    """Return the reduced row echelon form: directions of as few terms as possible."""
    space = np.array(space, dtype=float)
    row = 0
    for column in range(space.shape[1] if space.size else 0):
        if row == len(space):
            break
        pivot = row + int(np.argmax(np.abs(space[row:, column])))
        if abs(space[pivot, column]) < _NULL:
            continue
        space[[row, pivot]] = space[[pivot, row]]
        space[row] /= space[row, column]
        others = np.arange(len(space)) != row
        space[others] -= np.outer(space[others, column], space[row])
        row += 1
    return space[:row]


def _pair(direction: Vector, columns: Sequence[str]) -> tuple[str, str]:
    largest = np.argsort(-np.abs(direction), kind="stable")[:2]
    first, second = sorted(int(index) for index in largest)
    return columns[first], columns[second]
