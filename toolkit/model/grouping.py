"""Groups of cells that share one sub-model, and the cells that do not belong in theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import median

from toolkit.model.cell import Cell, GroupKey
from toolkit.units import ms_from_us

# a cycle holds a whole target forward; below this share of a plain step one of the two is wrong
_LEAST_SHARE_OF_PLAIN = 0.95


def group_text(key: GroupKey, *, with_draft: bool = False) -> str:
    """Return a group in words, its draft model where other groups differ in it alone."""
    named = [str(part) for part in (key.engine, key.model, key.gpu) if part]
    named.append(f"TP{key.tp_size}" if key.tp_size else "TP size not known")
    if with_draft:
        named.append(f"draft {key.draft_model}" if key.draft_model else "draft model not known")
    return ", ".join(named)


def other_drafts(key: GroupKey, groups: Iterable[GroupKey]) -> tuple[str, ...]:
    """Return the draft models, or "unknown", of the groups that differ from this one in it alone."""
    return tuple(one.draft_model or "unknown" for one in groups if one != key and one[:4] == key[:4])


def grouped(cells: Iterable[Cell]) -> dict[GroupKey, list[Cell]]:
    """Return cells by group, in the order in which the groups first appear.

    Cells of an unknown GPU join the only one of their engine, model and TP size; then cells of an unknown
    draft model the only one of their server. Plain decoding has none and is in the group of each.
    """
    cells = list(cells)
    known = {cell.key[:4] for cell in cells if cell.key.gpu is not None}
    servers = [_server(cell.key, known) for cell in cells]
    drafts: dict[GroupKey, dict[str | None, None]] = {}
    for cell, server in zip(cells, servers, strict=True):
        if cell.num_steps > 0:
            drafts.setdefault(server, {})[cell.key.draft_model] = None
    groups: dict[GroupKey, list[Cell]] = {}
    for cell, server in zip(cells, servers, strict=True):
        found = list(drafts.get(server, (None,)))
        named = [draft_model for draft_model in found if draft_model is not None]
        possible = named if len(named) == 1 else found
        own = cell.key.draft_model if cell.key.draft_model in possible else possible[0]
        for draft_model in possible if cell.num_steps == 0 else [own]:
            groups.setdefault(server._replace(draft_model=draft_model), []).append(cell)
    return groups


def _server(key: GroupKey, known: Collection[tuple[object, ...]]) -> GroupKey:
    """Return a key without its draft model, an unknown GPU replaced by the only one it could be."""
    alike = [gpu for engine, model, gpu, tp_size in known if (engine, model, tp_size) == (*key[:2], key[3])]
    gpu = alike[0] if key.gpu is None and len(alike) == 1 else key.gpu
    return GroupKey(key.engine, key.model, None if gpu is None else str(gpu), key.tp_size)


def group_for(key: GroupKey, groups: Collection[GroupKey], *, plain: bool = False) -> GroupKey | None:
    """Return the group of a key: its own, else the only one that agrees in what both know.

    They may differ in that one lacks the GPU or the draft model. None where there is no such group, or
    several it could be; plain decoding is alike in all that differ in their draft model.
    """
    if key in groups:
        return key
    alike = [other for other in groups if (*other[:2], other.tp_size) == (*key[:2], key.tp_size)]
    if len({other.gpu for other in alike}) > 1 or key.gpu is not None:
        alike = [other for other in alike if other.gpu == key.gpu] or [
            other for other in alike if key.gpu is not None and other.gpu is None
        ]
    if key.draft_model is not None:
        alike = [other for other in alike if other.draft_model == key.draft_model] or [
            other for other in alike if other.draft_model is None
        ]
    return alike[0] if len(alike) == 1 or (plain and alike) else None


def joined_warning(key: GroupKey, cells: Iterable[Cell]) -> list[str]:
    """Return sentences about the runs of a group that lack the GPU or the draft model that it has."""
    cells = list(cells)
    lacking = {
        "GPU": [cell for cell in cells if cell.key.gpu != key.gpu],
        "draft model": [
            cell for cell in cells if cell.num_steps > 0 and cell.key.draft_model != key.draft_model
        ],
    }
    taken = {
        "GPU": f"as run on {key.gpu}, the only one of that engine, model and TP size",
        "draft model": f"as runs of {key.draft_model}, the only one of that server",
    }
    sentences = []
    for what, without in lacking.items():
        runs = dict.fromkeys(cell.run for cell in without)
        if runs:
            named = next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"
            names, counts = ("names", "counts") if len(runs) == 1 else ("name", "count")
            sentences.append(f"{named} {names} no {what} and {counts} {taken[what]}")
    return sentences


def apart_warning(groups: Collection[GroupKey]) -> list[str]:
    """Return a sentence for each server whose runs are fitted apart by their draft models."""
    servers = dict.fromkeys(key._replace(draft_model=None) for key in groups)
    sentences = []
    for server in servers:
        drafts = [key.draft_model or "unknown" for key in groups if key[:4] == server[:4]]
        if len(drafts) > 1:
            sentences.append(
                f"{group_text(server)}: runs of {len(drafts)} draft models are fitted apart, each with the "
                f"runs of plain decoding ({', '.join(drafts)}); predict takes one with --draft-model"
            )
    return sentences


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
        if cell.num_steps == 0
        and cell.cycle
        and (cell.overlap or not like.overlap)  # without the scheduler a step is longer
        and (cell.padded_batch_size, cell.design_key[4]) == place
    ]
    steps = [cell for cell in same if cell.run == like.run] or same
    return median(cell.cycle.us for cell in steps if cell.cycle) if steps else None
