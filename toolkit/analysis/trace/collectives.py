"""Collectives in the phases of a cycle: how many, of which kind, and wire apart from wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.matched import Numbers
from toolkit.analysis.trace.ranks import CycleOnRanks
from toolkit.analysis.trace.trace_view import TraceView
from toolkit.analysis.trace.wire_and_wait import CollectiveKind, SplitCollectives, split_collectives
from toolkit.schema.inspection import CollectiveReport
from toolkit.units import us_from_ns

_USUAL = 0.5  # share of cycles in which a collective of every cycle is recorded, whatever was lost
MATCHED = 0.95  # share found in their places below which wire and wait are not told apart


@dataclass(frozen=True, slots=True)
class PhaseCollectives:
    """Reports of one phase, and what each rank waited in it: `waits_ns[cycle, rank]`, NaN if not known.

    `totals_ns[cycle, rank]` is all that a rank spent in the phase's collectives, NaN if none was recorded.
    `caused_ns[cycle, rank]` is what the others waited on the mean while a rank was the last to come.
    Ranks are those of the view, also those that are compared with nobody.
    """

    reports: tuple[CollectiveReport, ...]
    waits_ns: Numbers
    totals_ns: Numbers
    caused_ns: Numbers


def phase_parts(
    view: TraceView, name: str, cycles: Sequence[CycleOnRanks]
) -> tuple[list[SplitCollectives], bool]:
    """Return the collectives of a phase over aligned cycles, and whether enough of them were matched."""
    parts = [split_collectives(view, found) for found in view.matched(name, cycles)]
    missing = _missing(view, name, cycles, parts)
    return parts, len(view.compared) > 1 and _matched(_kinds(parts), parts, missing) >= MATCHED


def _kinds(parts: Sequence[SplitCollectives]) -> list[CollectiveKind]:
    return list(dict.fromkeys(kind for part in parts for kind in part.kinds))


def _missing(
    view: TraceView, name: str, cycles: Sequence[CycleOnRanks], parts: Sequence[SplitCollectives]
) -> int:
    """Return in how many cycles ranks replayed graphs with different collectives."""
    return sum(view.has(name, cycle) for cycle in cycles) - sum(len(part.found.cycles) for part in parts)


def phase_collectives(view: TraceView, name: str, cycles: Sequence[CycleOnRanks]) -> PhaseCollectives | None:
    """Describe the collectives of one phase over aligned cycles; None if it has none.

    A collective is the same one on two ranks if it has the same place in the graph's usual kernel sequence
    in the same cycle, and the ranks leave it together.
    """
    parts, split = phase_parts(view, name, cycles)
    if not parts:
        return None
    missing = _missing(view, name, cycles, parts)
    kinds = _kinds(parts)
    several = len(view.compared) > 1
    rows = tuple(_report(name, kind, parts, missing, several=several, split=split) for kind in kinds)
    shape = (len(cycles), len(view.traces))
    waits, totals, caused = (np.full(shape, np.nan) for _ in range(3))
    for part in parts:
        at = np.ix_(part.found.cycles, view.compared)
        totals[at] = _sum_or_nan(part.durations).T
        if split:
            waits[at] = _sum_or_nan(part.waits).T
            caused[at] = _caused(part).T
    return PhaseCollectives(rows, waits, totals, caused)


def _sum_or_nan(values: Numbers) -> Numbers:
    """Sum over collectives, unknown ones taken as the mean of the others; NaN if all are unknown."""
    known = np.isfinite(values)
    count = known.sum(axis=2)
    total = values.sum(axis=2, where=known)  # without a copy of a long trace's collectives
    return np.asarray(np.where(count > 0, total * values.shape[2] / np.maximum(count, 1), np.nan))


def _caused(part: SplitCollectives) -> Numbers:
    """Return by (rank, cycle) what the others waited, on the mean, where the rank came last."""
    waits = np.where(np.isfinite(part.waits), part.waits, 0.0)[:, :, part.whole]
    ranks = len(waits)
    last = np.argmin(np.where(np.isfinite(part.durations), part.durations, np.inf)[:, :, part.whole], axis=0)
    others = waits.sum(axis=0) / max(1, ranks - 1)
    return np.array([np.where(last == rank, others, 0.0).sum(axis=1) for rank in range(ranks)])


def _own(
    kind: CollectiveKind, parts: Sequence[SplitCollectives]
) -> list[tuple[SplitCollectives, NDArray[np.bool_]]]:
    """Return the parts that have a kind, each with the places of it."""
    return [(part, np.array([other == kind for other in part.kinds])) for part in parts if kind in part.kinds]


def _matched(kinds: Sequence[CollectiveKind], parts: Sequence[SplitCollectives], missing: int) -> float:
    """Return the share of (cycle, place, rank) in which a collective of these kinds was found.

    `missing` cycles are in no part: what ranks ran in them was matched nowhere.
    """
    found = expected = 0
    for kind in kinds:
        own = _own(kind, parts)
        found += sum(int(part.recorded[:, :, mine].sum()) for part, mine in own)
        expected += sum(part.recorded[:, :, mine].size for part, mine in own)
        part, mine = own[0]
        expected += missing * len(part.recorded) * int(mine.sum())
    return found / expected if expected else 0.0


def _report(
    phase: str,
    kind: CollectiveKind,
    parts: Sequence[SplitCollectives],
    missing: int,
    *,
    several: bool,
    split: bool,
) -> CollectiveReport:
    """Return one kind's row, with wire and wait if they may be `split`."""
    own = _own(kind, parts)
    first_part, mine = own[0]
    seen = first_part.recorded[:, :, mine].mean(axis=1).max(axis=0)  # share of cycles, by collective
    wires = np.concatenate([_once(part, cols) for part, cols in own])
    known = split and bool(np.isfinite(wires).any())
    of_a_rank = np.concatenate([_sum_or_nan(part.waits[:, :, cols]).mean(axis=0) for part, cols in own])
    leading = [part.waits[:, :, 0] for part, cols in own if cols[0]]  # this kind holds the phase's first
    firsts = np.concatenate(leading, axis=1) if leading and known else None
    return CollectiveReport(
        phase=phase,
        op=kind.op,
        algorithm=kind.algorithm,
        group_size=kind.group_size,
        message_bytes=kind.message_bytes,
        per_cycle=float(np.count_nonzero(seen >= _USUAL)),
        wire_us=_us_median(wires) if known else None,
        wait_us_per_cycle=_us_median(of_a_rank) if known else None,
        first_wait_us=_us_median(firsts.mean(axis=0)) if firsts is not None else None,
        first_wait_max_us=_us_median(firsts.max(axis=0)) if firsts is not None else None,
        matched_fraction=_matched([kind], parts, missing) if several else None,
    )


def _once(part: SplitCollectives, columns: NDArray[np.bool_]) -> Numbers:
    """Return the wire time of each instance, once for each group of ranks."""
    wire = part.wire[:, :, columns]
    same = np.r_[np.zeros((1, *wire.shape[1:]), dtype=bool), wire[1:] == wire[:-1]]
    return np.asarray(wire[~same].ravel())


def _us_median(values_ns: Numbers) -> float | None:
    finite = values_ns[np.isfinite(values_ns)]
    return us_from_ns(float(np.median(finite))) if finite.size else None


def observed_draft_tp(
    reports: Sequence[CollectiveReport], phases: set[str], tp_size: int | None
) -> int | None:
    """Return the draft's tensor-parallel size as its collectives prove it; None if they do not.

    A draft without collectives under a target that has them runs whole on each rank: TP 1. A draft's
    collective that names no group size proves only that it is not 1.
    """
    draft_phases = phases.intersection(("draft", "draft_extend"))
    if not draft_phases or not tp_size:
        return None
    if tp_size == 1:
        return 1
    mine = [report for report in reports if report.phase in draft_phases]
    if not mine:
        return 1 if any(report.phase == "verify" for report in reports) else None
    sizes = {report.group_size for report in mine if report.op == "all_reduce"}
    return sizes.pop() if len(sizes) == 1 else None
