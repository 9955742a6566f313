"""Cells whose cycle the host sets: with an overlap scheduler the cycle is the longer of host and GPU."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import Cell

# an unmarked cycle of the same shape that is no longer than a host-bound one is host-bound as well
_SAME_CYCLE = 1.1


def host_bound_flags(cells: Sequence[Cell]) -> list[bool]:
    """Return for each cell whether its cycle is a host floor rather than a sum of GPU phases.

    Without overlap host and GPU times add up, so no cell is. Plain decoding has no step count to
    be mistaken about: its host time is a summand (`host_plain_us`).
    """
    known = [_is_floor(cell) for cell in cells]
    longest = max(
        (cell.cycle.us for cell, floor in zip(cells, known, strict=True) if floor and cell.cycle), default=0.0
    )
    return [
        floor
        or (
            cell.num_steps > 0
            and cell.bound == "unknown"
            and cell.overlap_schedule is not False
            and cell.cycle is not None
            and cell.cycle.us <= _SAME_CYCLE * longest
        )
        for cell, floor in zip(cells, known, strict=True)
    ]


def _is_floor(cell: Cell) -> bool:
    return (
        cell.num_steps > 0
        and cell.bound == "host"
        and cell.overlap_schedule is not False
        and cell.cycle is not None
    )
