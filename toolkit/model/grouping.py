"""Groups of cells that share one sub-model, and the cells that do not belong in theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
    """Return cells by group, in the order in which the groups first appear.

    Cells of an unknown GPU join the group that `group_for` finds for them.
    """
    cells = list(cells)
    known = {cell.key for cell in cells if cell.key[2] is not None}
    groups: dict[GroupKey, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(group_for(cell.key, known) or cell.key, []).append(cell)
    return groups


def group_for(key: GroupKey, groups: Collection[GroupKey]) -> GroupKey | None:
    """Return the group of a key: its own, else the only one that agrees but for a GPU that one lacks.

    None where there is no such group, or several GPUs it could be.
    """
    if key in groups:
        return key
    engine, model, gpu, tp_size = key
    alike = [other for other in groups if (other[0], other[1], other[3]) == (engine, model, tp_size)]
    if gpu is not None:
        alike = [other for other in alike if other[2] is None]
    return alike[0] if len(alike) == 1 else None


def joined_warning(key: GroupKey, cells: Iterable[Cell]) -> list[str]:
    """Return a sentence about the runs of a group that name no GPU, where the group has one."""
    runs = dict.fromkeys(cell.run for cell in cells if cell.key != key)
    if not runs:
        return []
    named = next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"
    names, counts = ("names", "counts") if len(runs) == 1 else ("name", "count")
    return [
        f"{named} {names} no GPU and {counts} as run on {key[2]}, the only one of that engine, model and "
        "TP size"
    ]


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
