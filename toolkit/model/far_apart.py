"""Configurations that several runs measured and that differ by more than runs of one server do."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import Cell
from toolkit.units import ms_from_us

_APART = 1.5  # times the shorter cycle; restarts of one server differ by a few per cent


def far_apart(cells: Sequence[Cell]) -> list[str]:
    """Return a sentence on each setting whose cycles cannot be of one server under one kind of load."""
    found: dict[object, list[tuple[float, Cell]]] = {}
    for cell in cells:
        if cell.cycle is not None:
            found.setdefault(cell.design_key, []).append((cell.cycle.us, cell))
    sentences = []
    for same in found.values():
        (least_us, one), (most_us, other) = min(same, key=_us), max(same, key=_us)
        if one.run != other.run and most_us > _APART * least_us:
            sentences.append(
                f"{one.setting_text} takes {ms_from_us(least_us):.2f} ms in {one.run} and "
                f"{ms_from_us(most_us):.2f} ms in {other.run}: one of them is of another server or load, and "
                "which one the runs do not tell"
            )
    return sentences


def _us(pair: tuple[float, Cell]) -> float:
    return pair[0]
