"""Configurations that can be held against plain decoding: of one server, at one batch, at a like context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolkit.schema.inspection import Configuration, Inspection, RunReport

Measured = tuple[RunReport, Configuration]
_ALIKE_CONTEXT = 1.6  # times as long, at most


@dataclass(frozen=True, slots=True)
class Comparison:
    """Plain decoding and one configuration for each step count, all of one server and batch size."""

    plain: Measured
    speculative: tuple[Measured, ...]


def comparisons(inspection: Inspection) -> tuple[Comparison, ...]:
    """Return every comparison that the runs allow, in order of their first run.

    Of several configurations with one step count, that with phases and most cycles is taken.
    """
    by_load: dict[tuple[object, ...], list[Measured]] = {}
    for run in inspection.runs:
        for cell in run.configurations:
            if cell.cycle_us is not None and cell.num_steps is not None:
                load = (run.engine, run.model, run.gpu, run.tp_size, cell.batch_size)
                by_load.setdefault(load, []).append((run, cell))
    found = [_comparison(same) for same in by_load.values()]
    return tuple(one for one in found if one is not None)


def _comparison(same: Sequence[Measured]) -> Comparison | None:
    plain = _best(one for one in same if one[1].num_steps == 0)
    if plain is None:
        return None
    alike = [one for one in same if one[1].num_steps and _alike(one[1], plain[1]) and _accepts(one[1])]
    counts = sorted({one[1].num_steps or 0 for one in alike})
    chosen = [_best(one for one in alike if one[1].num_steps == count) for count in counts]
    speculative = tuple(one for one in chosen if one is not None)
    return Comparison(plain, speculative) if speculative else None


def _best(same: Iterable[Measured]) -> Measured | None:
    """Return one with the shortest contexts (within a doubling), of those with most phases, then cycles."""
    return max(same, key=_worth, default=None)


def _worth(one: Measured) -> tuple[int, int, int]:
    _, cell = one
    phases = cell.ranks[0].phases if cell.ranks else {}
    on_gpu = sum(time.graph_us is not None for time in phases.values())
    return -(cell.context_tokens or 0).bit_length(), on_gpu, cell.cycles


def _alike(cell: Configuration, plain: Configuration) -> bool:
    if not cell.context_tokens or not plain.context_tokens:
        return True
    small, large = sorted((cell.context_tokens, plain.context_tokens))
    return large <= _ALIKE_CONTEXT * small


def _accepts(cell: Configuration) -> bool:
    return cell.acceptance is not None and cell.acceptance.accept_length is not None
