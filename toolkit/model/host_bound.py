"""Cells whose cycle the host sets: with an overlap scheduler the cycle is the longer of host and GPU."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import Cell

# an unmarked cycle that is about as long as a host-bound one at about its context is host-bound as well;
# hosts of one kind differed by up to a fifth from one server to the next (H200, TP2)
_SAME_CYCLE = (0.8, 1.2)
_SAME_CONTEXT = 2.0
_ABOVE = 1.05  # by how much a floor may exceed the shortest cycle seen without it


def host_bound_flags(cells: Sequence[Cell]) -> list[bool]:
    """Return for each cell whether its cycle is a host floor rather than a sum of GPU phases.

    Without overlap host and GPU times add up, so no cell is. Plain decoding has no step count to
    be mistaken about: its host time is a summand (`host_plain_us`).
    """
    known = [cell for cell in cells if _is_floor(cell)]
    return [_is_floor(cell) or any(_as_long_as(cell, floor) for floor in known) for cell in cells]


def highest_floor_us(cells: Sequence[Cell], flags: Sequence[bool]) -> float:
    """Return how high a host floor can be: a cycle that is no floor and shorter shows that it is lower."""
    others = [
        cell.cycle.us
        for cell, floor in zip(cells, flags, strict=True)
        if not floor and cell.num_steps > 0 and cell.cycle is not None
    ]
    return _ABOVE * min(others, default=float("inf"))


def _is_floor(cell: Cell) -> bool:
    return (
        cell.num_steps > 0
        and cell.bound == "host"
        and cell.overlap_schedule is not False
        and cell.cycle is not None
    )


def _as_long_as(cell: Cell, floor: Cell) -> bool:
    if cell.num_steps == 0 or cell.bound != "unknown" or cell.overlap_schedule is False:
        return False
    if cell.cycle is None or floor.cycle is None or not _alike(cell.context_tokens, floor.context_tokens):
        return False
    least, most = _SAME_CYCLE
    return least * floor.cycle.us <= cell.cycle.us <= most * floor.cycle.us


def _alike(first: int | None, second: int | None) -> bool:
    if not first or not second:
        return True
    return max(first, second) <= _SAME_CONTEXT * min(first, second)
