"""How much of a cycle is draft and how much verify, over everything that reproduces the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.model.collective_costs import DRAFT_PHASES, cycle_wire_us, phase_wire_us
from toolkit.model.fitted import Fitted
from toolkit.model.terms import (
    DRAFT_TERMS,
    PHASE_TERMS,
    Setting,
    Vector,
    cycle_vector,
    floor_vector,
    vector,
)
from toolkit.schema.cost import CollectiveCost

_CLOSE = 0.01  # a share is given to whole per cents


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
    floor = floor_vector(fitted.columns, at)
    floors: Vector = np.zeros(len(points)) if floor is None else np.asarray(points @ floor)
    wire = _draft_wire_us(costs, at)
    counts = [replace(cost, wire_us=1.0, by_tokens=()) for cost in costs]
    return CycleParts(
        cycle=points @ cycle_vector(fitted.columns, at) + cycle_wire_us(costs, at),
        draft=points @ vector(fitted.columns, DRAFT_TERMS, at),
        draft_wire=wire,
        draft_collectives=sum(phase_wire_us(counts, phase, at) for phase in DRAFT_PHASES),
        floor=floors,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A fit in which verify takes a share of one cycle that lies in `low` to `high`, or why there is none.

    `fitted` None: the share is not between `low` and `high`, all that the runs and the facts allow.
    """

    fitted: Fitted | None
    low: float
    high: float


def verify_share_at(fitted: Fitted, at: Setting, host_bound: bool) -> float:
    """Return verify's share of the cycle at `at`, wire included, in the solution itself."""
    over, over_us, under, under_us = _verify_ratio(fitted, at, host_bound)
    return float(over @ fitted.solution + over_us) / max(float(under @ fitted.solution + under_us), 1e-9)


def pinned(
    fitted: Fitted,
    cells: Sequence[tuple[Setting, float | None]],
    at: Setting,
    verify_share: float,
    asked: Sequence[Setting],
) -> Pinned:
    """Return the fit with verify taking `verify_share` of the cycle at `at`, at most `_CLOSE` moved to it.

    `cells` are what was run, with the cycle in us where the host set it. The extremes are those of all
    non-negative coefficients that reproduce the data and meet the facts and the share: found by linear
    programming, also for the draft's share of the cycles `asked` for.
    """
    from toolkit.model.feasible import extremes, feasible

    rows = np.linalg.svd(fitted.null, full_matrices=True)[2][len(fitted.null) :]
    within = feasible(rows, fitted.norms, fitted.columns, fitted.solution, cells)
    host_bound = any(us is not None for seen, us in cells if seen == at)
    ratio = _verify_ratio(fitted, at, host_bound)
    over, over_us, under, under_us = ratio
    ends = [within.least_ratio(ratio, sign) for sign in (1.0, -1.0)]
    shares = [
        float(over @ end + over_us) / float(under @ end + under_us) for end in ends if end is not None
    ] or [0.0, 1.0]
    low, high = min(shares), max(shares)
    share = min(max(verify_share, low), high)
    if abs(share - verify_share) > _CLOSE:
        return Pinned(fitted=None, low=low, high=high)
    there = within.where(over - share * under, share * under_us - over_us)
    cycles = [cycle_vector(fitted.columns, one) for one in asked]
    drafts = [vector(fitted.columns, DRAFT_TERMS, one) for one in asked]
    draft_ratios = [
        (draft, _draft_wire_us(fitted.costs, one), cycle, cycle_wire_us(fitted.costs, one))
        for one, draft, cycle in zip(asked, drafts, cycles, strict=True)
    ]
    kept = extremes(there, cells, [*cycles, *drafts], draft_ratios)
    if not len(kept):
        return Pinned(fitted=None, low=low, high=high)
    return Pinned(fitted=replace(fitted, vertices=kept, solution=kept.mean(axis=0)), low=low, high=high)


def _verify_ratio(fitted: Fitted, at: Setting, host_bound: bool) -> tuple[Vector, float, Vector, float]:
    """Return verify over the cycle (the host's floor where that sets it), as factors and wire times."""
    verify = vector(fitted.columns, PHASE_TERMS["verify"], at)
    verify_us = phase_wire_us(fitted.costs, "verify", at)
    floor = floor_vector(fitted.columns, at) if host_bound else None
    if floor is not None:
        return verify, verify_us, floor, 0.0
    return verify, verify_us, cycle_vector(fitted.columns, at), cycle_wire_us(fitted.costs, at)


def _draft_wire_us(costs: Sequence[CollectiveCost], at: Setting) -> float:
    return sum(phase_wire_us(costs, phase, at) for phase in DRAFT_PHASES)
