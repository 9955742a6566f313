"""How much of a cycle is draft and how much verify, over everything that reproduces the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from toolkit.model.collective_costs import cycle_wire_us, phase_wire_us
from toolkit.model.fitted import Fitted, Matrix
from toolkit.model.terms import PHASE_TERMS, Setting, Vector, cycle_vector, floor_column, vector
from toolkit.schema.cost import CollectiveCost

DRAFT_NAMES = (*PHASE_TERMS["draft"], *PHASE_TERMS["draft_extend"])
_DRAFT_PHASES = ("draft", "draft_extend")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleParts:
    """Times in us, one entry for each extreme solution (one if the data leaves nothing open).

    `draft` is compute of the draft's forwards, its collectives in `draft_wire`; `cycle` holds both.
    `floor` is the host's (0 without one): no cycle is shorter.
    """

    cycle: Vector
    draft: Vector
    draft_wire: float
    draft_collectives: float  # per cycle
    floor: Vector

    def with_draft(self, draft: Vector | float, wire: float) -> Vector:
        """Return the cycle with another draft time and wire."""
        summed = self.cycle - self.draft - self.draft_wire + draft + wire
        return np.asarray(np.maximum(summed, self.floor))

    @property
    def total(self) -> Vector:
        """The cycle as it is, the host's floor included."""
        return np.asarray(np.maximum(self.cycle, self.floor))


def parts_at(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost]) -> CycleParts:
    """Return the parts of a speculative cycle."""
    points = fitted.vertices if len(fitted.vertices) else fitted.solution[None, :]
    floor = floor_column(at)
    floors: Vector = np.zeros(len(points))
    if floor is not None and floor in fitted.columns:
        floors = np.asarray(points.take(fitted.columns.index(floor), axis=1))
    wire = sum(phase_wire_us(costs, phase, at) for phase in _DRAFT_PHASES)
    counts = [replace(cost, wire_us=1.0) for cost in costs]
    return CycleParts(
        cycle=points @ cycle_vector(fitted.columns, at) + cycle_wire_us(costs, at),
        draft=points @ vector(fitted.columns, DRAFT_NAMES, at),
        draft_wire=wire,
        draft_collectives=sum(phase_wire_us(counts, phase, at) for phase in _DRAFT_PHASES),
        floor=floors,
    )


def pinned(fitted: Fitted, at: Setting, verify_share: float) -> Fitted | None:
    """Return the fit with verify taking `verify_share` of the cycle at `at`; None if the data rule it out.

    The extremes that are left lie where edges between extremes cross the share.
    """
    points = fitted.vertices if len(fitted.vertices) else fitted.solution[None, :]
    verify = vector(fitted.columns, PHASE_TERMS["verify"], at)
    cycle = cycle_vector(fitted.columns, at)
    wire = phase_wire_us(fitted.costs, "verify", at)
    whole = cycle_wire_us(fitted.costs, at)
    excess = (points @ verify + wire) - verify_share * (points @ cycle + whole)
    kept = _section(points, excess, float(np.median(points @ cycle + whole)))
    if kept is None:
        return None
    return replace(fitted, vertices=kept, solution=kept.mean(axis=0))


def _section(points: Matrix, excess: Vector, size: float) -> Matrix | None:
    """Return the corners of where `excess` is zero inside the hull of `points`."""
    near = np.abs(excess) <= 1e-6 * size
    corners = list(points[near])
    for i, j in combinations(range(len(points)), 2):
        if excess[i] * excess[j] < 0:
            weight = excess[i] / (excess[i] - excess[j])
            corners.append(points[i] + weight * (points[j] - points[i]))
    return np.array(corners) if corners else None
