"""A cycle from coefficients alone: the GPU's sum, or the host's floor where that is longer."""

from __future__ import annotations

import numpy as np

from toolkit.model.fitted import Fitted, Matrix
from toolkit.model.reach import tree_share
from toolkit.model.terms import Setting, Vector, floor_vector

DETERMINED = 1e-4  # of a forecast along null directions


def summed_cycle(fitted: Fitted, factors: Vector, wire_us: float, at: Setting, points: Matrix) -> Vector:
    """Return the cycle in us for each row of coefficients; `factors` are those of `at`."""
    cycles = (points @ factors + wire_us) * tree_share(fitted.support, at)
    floor = host_floor(fitted, at, points)
    return np.asarray(cycles if floor is None else np.maximum(cycles, floor))


def host_floor(fitted: Fitted, at: Setting, points: Matrix) -> Vector | None:
    """Return the host's floor in each row of coefficients, None where there is none."""
    factors = floor_vector(fitted.columns, at)
    return None if factors is None else np.asarray(points @ factors)


def open_share(fitted: Fitted, factors: Vector) -> float:
    """Return how much of a forecast lies along null directions: 0 is determined, 1 is wholly open."""
    scaled = factors / fitted.norms
    length = float(np.linalg.norm(scaled))
    return float(np.linalg.norm(fitted.null @ scaled)) / length if length else 0.0
