"""At how many tokens a forward of the target turns from reading weights to computing.

A forward of few tokens takes as long as its weights take to read, one of many as long as its products take to
compute: time is flat, or nearly, up to a knee and steep beyond it. Where a group's own cycles or verify times
bend so, the tokens beyond the knee have a term of their own (`verify_compute_us`, and `decode_compute_us` for
plain steps of large batches); without one, a straight line would put too little on small batches and too
little on the largest. Williams et al., "Roofline", 2009.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from toolkit.model.cell import Cell, GroupKey
from toolkit.model.fit_cells import misfit_of

# Tokens at which 16-bit weights take as long to read as their products to compute, by what NVIDIA calls the
# GPU: dense 16-bit FLOP/s over memory bandwidth, of its data sheets. Tensor parallelism divides both.
_KNEES = (
    ("H100", 295),
    ("H800", 295),
    ("H200", 206),
    ("H20", 37),
    ("A100", 153),
    ("B200", 281),
    ("L40S", 419),
)
_EARLIEST = 1 / 4  # of that: weights of 4 bits are read in a quarter of the time
_LEAST_TOKENS = 16  # of a GPU that is not listed
_LEAST_EACH_SIDE = 2  # token counts, that tell a slope on each side
_MOST_PLACES = 12  # that are tried
_BETTER = 9.0  # squared standard errors, for a slope and its place: less is a tie, and a line is kept


def with_knee(cells: Sequence[Cell], key: GroupKey) -> list[Cell]:
    """Return the cells of a group with the knee of their target, where their times show one."""
    cells = list(cells)
    if any(cell.shape.experts is not None for cell in cells):
        return cells  # experts that fill up bend the other way, and cycles alone do not tell the two apart
    places = _places(cells, _earliest(key.gpu))
    if not places:
        return cells
    straight = misfit_of(cells)
    if straight <= _BETTER:
        return cells
    tried = {place: misfit_of(_bent(cells, place)) for place in places}
    best = min(tried, key=lambda place: tried[place])
    return _bent(cells, best) if tried[best] < straight - _BETTER else cells


def _bent(cells: Sequence[Cell], place: float) -> list[Cell]:
    return [replace(cell, shape=replace(cell.shape, knee_tokens=place)) for cell in cells]


def _earliest(gpu: str | None) -> float:
    """Return the fewest tokens at which a knee is one of computing, and no chance of a few uneven cycles."""
    known = next(
        (knee for name, knee in _KNEES if name in re.split(r"[^A-Z0-9]+", (gpu or "").upper())), None
    )
    return _LEAST_TOKENS if known is None else _EARLIEST * known


def _places(cells: Sequence[Cell], earliest: float) -> list[float]:
    """Return numbers of tokens with enough on both sides: those run, and the middles between."""
    counts = sorted({tokens_of(cell) for cell in cells if cell.num_steps > 0})
    inside = counts[_LEAST_EACH_SIDE - 1 : len(counts) - _LEAST_EACH_SIDE + 1]
    found = [float(inside[0])] if inside and len(counts) >= 2 * _LEAST_EACH_SIDE else []
    for low, high in pairwise(inside):
        found += [(low * high) ** 0.5, float(high)]
    found = [place for place in found[:-1] if place >= earliest]  # beyond the last lies a single count
    step = max(len(found) / _MOST_PLACES, 1.0)
    return [found[int(place * step)] for place in range(min(len(found), _MOST_PLACES))]


def tokens_of(cell: Cell) -> int:
    """Return the tokens of the target's forward, over the padded batch."""
    return cell.padded_batch_size * cell.num_draft_tokens
