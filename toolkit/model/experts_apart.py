"""Whether a group's own cycles tell the cost of its experts apart from that of its tokens.

Experts fill up as the batch grows: their part is concave in it, and the rest straight. Which of the two a
server's cycles follow differs by more than any rule of thumb (of two published sweeps of one family one is
nearly straight), so from three batch sizes on the fit that meets them better is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolkit.model.cell import Cell, GroupKey
from toolkit.model.experts import experts_of
from toolkit.model.fit_cells import misfit_of

_ENOUGH_BATCHES = 3
_BETTER = 4.0  # squared standard errors, for the two terms more: less is a tie, and fewer terms are kept


def with_experts(cells: Sequence[Cell], key: GroupKey) -> list[Cell]:
    """Return the cells of a group as its experts shape their costs, where cycles are all that is known."""
    experts = experts_of(key.model)
    if experts is None or any(cell.graph or cell.stage or cell.steps for cell in cells):
        return list(cells)
    bent = [replace(cell, shape=replace(cell.shape, experts=experts)) for cell in cells]
    apart = [replace(cell, shape=replace(cell.shape, experts_apart=True)) for cell in bent]
    if len({cell.padded_batch_size for cell in cells if cell.num_steps > 0}) < _ENOUGH_BATCHES:
        return bent
    return apart if misfit_of(apart) < misfit_of(bent) - _BETTER else bent
