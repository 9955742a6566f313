"""Acceptance of a group's runs: the real curve, and the speculative settings that were run."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from toolkit.analysis.accept_rate import convention_of_version
from toolkit.model.cell import Cell
from toolkit.model.terms import Vector
from toolkit.schema.cost import AcceptanceCurve, SpeculativeSetting
from toolkit.schema.inspection import AcceptanceReport

_UNKNOWN_EFFECT = 2.0  # cycles of a request are alike: 2 on the mildest public data set
_CYCLES_OF_A_TABLE = 100  # what a published number is taken to rest on


def pooled_curve(cells: Sequence[Cell]) -> AcceptanceCurve | None:
    """Return hazard counts pooled over chains whose acceptance is not simulated; None without any.

    Simulated acceptance says nothing of a draft and never enters. A run of K steps says nothing of
    position K+1: its cycles are not at risk there.
    """
    used = curve_cells(cells)
    if not used:
        return None
    longest = max(len(_positions(cell)) for cell in used)
    at_risk, kept, effects = np.zeros(longest), np.zeros(longest), []
    for cell in used:
        assert cell.acceptance is not None
        cycles = cell.acceptance.cycles or _CYCLES_OF_A_TABLE
        survival = np.minimum.accumulate(np.clip([1.0, *_positions(cell)], 0.0, 1.0))
        at_risk[: len(survival) - 1] += cycles * survival[:-1]
        kept[: len(survival) - 1] += cycles * survival[1:]
        effects.append(_design_effect(cell.acceptance, survival))
    return AcceptanceCurve(
        at_risk=tuple(at_risk.tolist()),
        kept=tuple(kept.tolist()),
        design_effect=float(np.mean(effects)),
        runs=tuple(dict.fromkeys(cell.run for cell in used)),
    )


def curve_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return the chains whose acceptance by position is known and not simulated."""
    return [
        cell
        for cell in cells
        if cell.acceptance_kind != "simulated"
        and cell.topk == 1
        and cell.acceptance is not None
        and cell.acceptance.accept_by_position
    ]


def _positions(cell: Cell) -> tuple[float, ...]:
    assert cell.acceptance is not None
    return cell.acceptance.accept_by_position[: cell.num_steps]


def _design_effect(acceptance: AcceptanceReport, survival: Vector) -> float:
    """Return the squared error of the accept length over that of independent cycles, at least 1."""
    if acceptance.se is None or not isfinite(acceptance.se) or acceptance.cycles < 2:
        return _UNKNOWN_EFFECT
    drafts = survival[1:]
    mean = float(drafts.sum())
    square = float(((2 * np.arange(1, len(drafts) + 1) - 1) * drafts).sum())
    independent = max(square - mean**2, 1e-6) / acceptance.cycles
    return max(1.0, acceptance.se**2 / independent)


def speculative_settings(cells: Sequence[Cell]) -> tuple[SpeculativeSetting, ...]:
    """Return every speculative setting with its cycles, the most cycles first; lengths pool by cycles."""
    found: dict[tuple[int, int, int], list[Cell]] = {}
    for cell in cells:
        if cell.num_steps > 0:
            found.setdefault((cell.num_steps, cell.num_draft_tokens, cell.topk), []).append(cell)
    settings = []
    for (steps, width, topk), same in found.items():
        length, kind = _pooled_length(same)
        settings.append(
            SpeculativeSetting(
                num_steps=steps,
                num_draft_tokens=width,
                topk=topk,
                cycles=sum(max(cell.cycles, 1) for cell in same),
                accept_length=length,
                acceptance_kind=kind,
            )
        )
    return tuple(sorted(settings, key=lambda setting: (-setting.cycles, setting.num_steps, setting.topk)))


def _pooled_length(cells: Sequence[Cell]) -> tuple[float | None, str | None]:
    """Return the accept length of the cells whose acceptance was not simulated, and its kind."""
    drafts, cycles, kinds = 0.0, 0, set()
    for cell in cells:
        length = cell.acceptance.accept_length if cell.acceptance else None
        if length is None or cell.acceptance_kind == "simulated" or cell.acceptance is None:
            continue
        weight = cell.acceptance.cycles or max(cell.cycles, 1)
        drafts += weight * (length - 1)
        cycles += weight
        kinds.add(cell.acceptance_kind)
    if not cycles:
        simulated = all(cell.acceptance_kind == "simulated" for cell in cells)
        return None, "simulated" if simulated else None
    return 1 + drafts / cycles, "real" if kinds == {"real"} else None


def rate_convention(cells: Sequence[Cell]) -> tuple[str | None, str | None]:
    """Return how this group's engine prints its accept rate, and what told it.

    The lines' own lengths and rates come before the version; two conventions in one group tell nothing.
    """
    lines = {cell.acceptance.rate_kind for cell in cells if cell.acceptance and cell.acceptance.rate_kind}
    if len(lines) == 1:
        return lines.pop(), "the fitted runs' own log lines"
    if len(lines) > 1:
        return None, "the fitted runs' log lines disagree"
    versions = {convention_of_version(cell.engine, cell.engine_version) for cell in cells}
    known = {version for version in versions if version is not None}
    if len(known) == 1:
        return str(known.pop()), "engine and version of the fitted runs"
    return None, None
