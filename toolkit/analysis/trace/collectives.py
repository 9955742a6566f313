"""Collectives in the phases of a cycle: how many, of which kind, and wire apart from wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.analysis.trace.consensus import Ids, places, usual_sequence
from toolkit.analysis.trace.cycles import Phase, TracedCycle
from toolkit.analysis.trace.kernel_names import KernelKind, kernel_kind
from toolkit.schema.inspection import CollectiveReport
from toolkit.schema.trace import RankTrace
from toolkit.units import us_from_ns

_USUAL = 0.5  # share of cycles in which a collective of every cycle is recorded, whatever was lost


@dataclass(frozen=True, slots=True)
class _Kind:
    op: str
    algorithm: str
    group_size: int | None
    message_bytes: int | None


@dataclass(frozen=True, slots=True)
class PhaseCollectives:
    """Reports of one phase, and what each rank waited in it: `waits_ns[cycle][rank]`, NaN if unmatched.

    `totals_ns[cycle][rank]` is all that a rank spent in the phase's collectives, NaN if none was recorded.
    """

    reports: tuple[CollectiveReport, ...]
    waits_ns: np.ndarray
    totals_ns: np.ndarray


def phase_collectives(
    name: str, traces: Sequence[RankTrace], cycles: Sequence[tuple[TracedCycle, ...]]
) -> PhaseCollectives | None:
    """Describe the collectives of one phase over aligned cycles; None if it has none.

    `traces` and each tuple of `cycles` list the ranks in one order. A collective is the same one on
    two ranks if it has the same place in the phase's usual kernel sequence in the same cycle.
    """
    occurrences = [
        tuple(cycle.phases[name] for cycle in ranks)
        for ranks in cycles
        if all(name in c.phases for c in ranks)
    ]
    if not occurrences:
        return None
    tables = [
        _RankTable(trace, [phases[rank] for phases in occurrences]) for rank, trace in enumerate(traces)
    ]
    slots = tables[0].collective_slots
    if not slots:
        return None
    durations = _durations(tables, len(slots), len(occurrences))  # (ranks, cycles, slots), ns, NaN if lost
    complete = np.isfinite(durations).all(axis=0)
    wire = np.where(complete, _quiet_min(durations), np.nan)
    waits = np.where(complete, durations - wire, np.nan)
    several = len(traces) > 1
    rows = []
    for kind in dict.fromkeys(tables[0].kinds):
        mine = np.array([other == kind for other in tables[0].kinds])
        rows.append(_report(name, kind, mine, durations, wire, waits, several))
    per_cycle = _sum_or_nan(waits, axis=2).T if several else np.full((len(occurrences), len(traces)), np.nan)
    return PhaseCollectives(tuple(rows), per_cycle, _sum_or_nan(durations, axis=2).T)


def _durations(tables: Sequence[_RankTable], slots: int, cycles: int) -> np.ndarray:
    durations = np.full((len(tables), cycles, slots), np.nan)
    for rank, table in enumerate(tables):
        if len(table.collective_slots) == slots:  # else this rank runs another graph: nothing matches
            durations[rank] = table.durations
    return durations


def _quiet_min(durations: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(np.isfinite(durations), durations, np.inf).min(axis=0))


def _sum_or_nan(waits: np.ndarray, axis: int) -> np.ndarray:
    """Sum over collectives, NaN ones (lost, unmatched) taken as the mean of the others; NaN if all are."""
    matched = np.isfinite(waits)
    count = matched.sum(axis=axis)
    total = np.where(matched, waits, 0.0).sum(axis=axis)
    return np.asarray(np.where(count > 0, total * waits.shape[axis] / np.maximum(count, 1), np.nan))


class _RankTable:
    """Collectives of one phase on one rank: kinds by slot, durations by cycle and slot (ns, NaN if lost)."""

    def __init__(self, trace: RankTrace, phases: Sequence[Phase]) -> None:
        kernels = trace.kernels
        ordered = [
            phase.kernels[np.argsort(kernels.start_ns[phase.kernels], kind="stable")] for phase in phases
        ]
        sequences: list[Ids] = [kernels.name[indices].astype(np.int64) for indices in ordered]
        usual = usual_sequence(sequences)
        named = [kernel_kind(trace.names[name]) for name in usual]
        self.collective_slots = [slot for slot, kind in enumerate(named) if kind.kind == "collective"]
        column = {slot: i for i, slot in enumerate(self.collective_slots)}
        self.durations = np.full((len(phases), len(column)), np.nan)
        sample = dict.fromkeys(self.collective_slots, -1)  # one kernel of each slot, for what its launch said
        for cycle, (indices, sequence) in enumerate(zip(ordered, sequences, strict=True)):
            for index, slot in zip(indices.tolist(), places(sequence, usual).tolist(), strict=True):
                if slot in column:
                    self.durations[cycle, column[slot]] = kernels.duration_ns[index]
                    sample[slot] = index
        self.kinds = [self._kind(named[slot], trace, sample[slot]) for slot in self.collective_slots]

    @staticmethod
    def _kind(kind: KernelKind, trace: RankTrace, index: int) -> _Kind:
        group = int(trace.kernels.group_size[index]) or kind.group_size or _only_group(trace)
        message = int(trace.kernels.message_bytes[index])
        if kind.op == "all_gather":  # launches give one rank's share, a message is the whole array
            message *= group or 0
        return _Kind(str(kind.op), str(kind.algorithm), group, message or None)


def _only_group(trace: RankTrace) -> int | None:
    """Return the size of the rank's groups if all that have more than one member agree."""
    sizes = {len(group.ranks) for group in trace.process_groups if len(group.ranks) > 1}
    return sizes.pop() if len(sizes) == 1 else None


def _report(
    phase: str,
    kind: _Kind,
    mine: np.ndarray,
    durations: np.ndarray,
    wire: np.ndarray,
    waits: np.ndarray,
    several: bool,
) -> CollectiveReport:
    recorded = np.isfinite(durations[:, :, mine]).mean(axis=1).max(axis=0)  # share of cycles, by collective
    matched = np.isfinite(wire[:, mine])
    first = bool(mine[0])  # this kind holds the phase's first collective
    first_waits = waits[:, :, 0] if first else None
    of_a_rank = _sum_or_nan(waits[:, :, mine], axis=2).mean(axis=0)
    known = several and bool(matched.any())
    return CollectiveReport(
        phase=phase,
        op=kind.op,
        algorithm=kind.algorithm,
        group_size=kind.group_size,
        message_bytes=kind.message_bytes,
        per_cycle=float(np.count_nonzero(recorded >= _USUAL)),
        wire_us=_us_median(wire[:, mine]) if known else None,
        wait_us_per_cycle=_us_median(of_a_rank) if known else None,
        first_wait_us=_us_median(first_waits.mean(axis=0)) if known and first_waits is not None else None,
        first_wait_max_us=_us_median(first_waits.max(axis=0)) if known and first_waits is not None else None,
        matched_fraction=float(matched.mean()) if several else None,
    )


def _us_median(values_ns: np.ndarray) -> float | None:
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
