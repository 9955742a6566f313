"""Groups of cells that share one sub-model, and the cells that do not belong in theirs."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from toolkit.model.cell import Cell, GroupKey
from toolkit.units import ms_from_us

# a cycle holds a whole target forward; below this share of a plain step one of the two is wrong
_LEAST_SHARE_OF_PLAIN = 0.95


def group_text(key: GroupKey) -> str:
    """Return a group in words."""
    engine, model, gpu, tp_size = key
    named = [str(part) for part in (engine, model, gpu) if part]
    return ", ".join([*named, f"TP{tp_size}" if tp_size else "TP size not known"])


def grouped(cells: Iterable[Cell]) -> dict[GroupKey, list[Cell]]:
    """Return cells by group, in the order in which the groups first appear."""
    groups: dict[GroupKey, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.key, []).append(cell)
    return groups


def screened(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """Return the cells of one group that can be fitted together, and why the others cannot."""
    kept, warnings = _without_eager(cells)
    kept, more = _without_impossible(kept)
    return kept, warnings + more


def _without_eager(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    if all(cell.eager for cell in cells) or not any(cell.eager for cell in cells):
        return cells, []
    warnings = [
        f"{cell.run}: {cell.setting_text} left out of the fit: its forwards ran without CUDA graphs, "
        "those of the other runs with them"
        for cell in cells
        if cell.eager
    ]
    return [cell for cell in cells if not cell.eager], warnings


def _without_impossible(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """Leave out cycles shorter than a plain step: of their own run or table's sweep if it has one."""
    kept: list[Cell] = []
    warnings: list[str] = []
    for cell in cells:
        step = _plain_step_us(cells, cell) if cell.num_steps > 0 and cell.cycle else None
        if cell.cycle and step and cell.cycle.us < _LEAST_SHARE_OF_PLAIN * step:
            warnings.append(
                f"{cell.run}: {cell.setting_text} left out of the fit: its cycle of "
                f"{ms_from_us(cell.cycle.us):.2f} ms is shorter than a plain step of "
                f"{ms_from_us(step):.2f} ms, which every cycle contains, so one of the two is wrong"
            )
        else:
            kept.append(cell)
    return kept, warnings


def _plain_step_us(cells: list[Cell], like: Cell) -> float | None:
    """Return the median plain step at the batch and context of a cell, None where there is none."""
    place = (like.padded_batch_size, like.design_key[4])
    same = [
        cell
        for cell in cells
        if cell.num_steps == 0 and cell.cycle and (cell.padded_batch_size, cell.design_key[4]) == place
    ]
    steps = [cell for cell in same if cell.run == like.run] or same
    return median(cell.cycle.us for cell in steps if cell.cycle) if steps else None
