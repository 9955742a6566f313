"""A cycle in parts that can be laid end to end: what `cycle` and `against_plain` draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from toolkit.schema.inspection import Configuration, RankReport

ORDER = ("decode", "draft", "verify", "sample", "draft_extend", "gap", "rest")
_NAMES = {"draft_extend": "draft extend"}


@dataclass(frozen=True, slots=True)
class Part:
    """One phase of a cycle in us: its median on the GPU (`graph`), else around the engine's call."""

    phase: str
    us: float
    wait_us: float = 0.0  # of it, waiting in collectives for other ranks
    graph: bool = True


def parts_of(rank: RankReport, cycle_us: float | None) -> tuple[Part, ...]:
    """Return a rank's phases in order, and what of the cycle is in none of them.

    That is `gap` where a trace saw all phases, `rest` where only some have a time on the GPU; where one
    has a stage time alone nothing is left over, since stages hold gaps and overlap.
    """
    return _with_rest(_phases(rank), cycle_us)


def _phases(rank: RankReport) -> list[Part]:
    found = []
    for phase in ORDER:
        time = rank.phases.get(phase)
        if time is None or (time.graph_us is None and time.stage_us is None):
            continue
        if time.graph_us is not None:
            us = time.graph_us.median
            found.append(Part(phase, us, min(time.wait_us or 0.0, us)))
        elif time.stage_us is not None:
            found.append(Part(phase, time.stage_us.median, graph=False))
    return found


def _with_rest(found: Sequence[Part], cycle_us: float | None) -> tuple[Part, ...]:
    timed = found and all(part.graph and part.phase != "gap" for part in found)
    left = (cycle_us or 0.0) - sum(part.us for part in found)
    return (*found, Part("rest", left)) if timed and left > 0 else tuple(found)


def mean_parts(cell: Configuration) -> tuple[Part, ...]:
    """Return the parts of a configuration's cycle, each the mean over its ranks."""
    by_rank = [{part.phase: part for part in _phases(rank)} for rank in cell.ranks]
    found = []
    for phase in ORDER:
        same = [parts[phase] for parts in by_rank if phase in parts]
        if same:
            found.append(_mean(phase, same))
    return _with_rest(found, cell.cycle_us.median if cell.cycle_us else None)


def _mean(phase: str, same: Sequence[Part]) -> Part:
    return Part(
        phase,
        fmean(part.us for part in same),
        fmean(part.wait_us for part in same),
        all(part.graph for part in same),
    )


def phase_name(phase: str) -> str:
    """Return a phase as a reader says it."""
    return _NAMES.get(phase, phase)
