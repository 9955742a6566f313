"""Refits that a server can have: a cycle of no steps, by the line of the others, holds a plain step.

The line through the cycles of 1 and 2 steps, continued to none, is one token verified for each request
beside what the draft costs at least; it is no shorter than the plain step of the same batch and context.
Two step counts leave their slope to the noise of both, and this fact bounds it from above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toolkit.model.cell import Cell, setting_of
from toolkit.model.collective_costs import cycle_wire_us
from toolkit.model.solve import Matrix
from toolkit.model.terms import Setting, Vector, cycle_vector
from toolkit.schema.cost import CollectiveCost

_MOST_MORE = 3  # times as many refits are made, if need be, to replace those that cannot be
Fact = tuple[Vector, float]  # factors @ coefficients + us >= 0


def intercept_facts(
    cells: Sequence[Cell], columns: Sequence[str], costs: Sequence[CollectiveCost]
) -> list[Fact]:
    """Return that fact for each batch and context at which plain decoding and chains were both run."""
    places = {_place(cell): setting_of(cell) for cell in cells if cell.num_steps == 0}
    chains = {_place(cell) for cell in cells if cell.num_steps > 0 and cell.topk == 1}
    facts = []
    for step in (at for place, at in places.items() if place in chains):
        one, two = (_chain(step, steps) for steps in (1, 2))
        factors = 2 * cycle_vector(columns, one) - cycle_vector(columns, two) - cycle_vector(columns, step)
        wire = 2 * cycle_wire_us(costs, one) - cycle_wire_us(costs, two) - cycle_wire_us(costs, step)
        facts.append((factors, wire))
    return facts


def possible(facts: Sequence[Fact], solution: Vector, draws: Matrix, more: Callable[[int], Matrix]) -> Matrix:
    """Return as many refits of which each meets the facts that the solution meets; `more` makes others."""
    facts = [fact for fact in facts if _meets(fact, solution[None, :])[0]]
    meets = _all_meet(facts, draws)
    if meets.all():
        return draws
    others = more(_MOST_MORE * len(draws))
    good = np.vstack([draws[meets], others[_all_meet(facts, others)], solution[None, :]])
    made = draws.copy()
    made[~meets] = good[meets.sum() + np.arange((~meets).sum()) % (len(good) - meets.sum())]
    return made


def _place(cell: Cell) -> tuple[int, int | None, bool]:
    return cell.padded_batch_size, cell.design_key[4], cell.overlap


def _chain(step: Setting, steps: int) -> Setting:
    return replace(step, num_steps=steps, num_draft_tokens=steps + 1)


def _meets(fact: Fact, points: Matrix) -> NDArray[np.bool_]:
    factors, constant = fact
    return np.asarray(points @ factors + constant >= 0)


def _all_meet(facts: Sequence[Fact], points: Matrix) -> NDArray[np.bool_]:
    found = np.ones(len(points), dtype=bool)
    for fact in facts:
        found &= _meets(fact, points)
    return found
