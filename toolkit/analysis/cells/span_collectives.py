"""Collectives that events timed in sampled cycles: wire apart from wait, by their place in the phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.schema.inspection import CollectiveReport
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import SpanCycle

Times = NDArray[np.float64]

_PHASES = ("draft", "verify", "decode", "sample", "draft_extend")
_DRAFT_PHASES = ("draft", "draft_extend")
_HALF = 0.5 - 1e-9  # of one rank's cycles; sums of weights round


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """One phase's collectives, in us less the events' own time: (cycles, places) by rank.

    `wire_us` is by place; None with one rank alone, whose waiting cannot be told from it. `left_out` of
    `lists` had another length than most: their places are not those of the others.
    """

    phase: str
    by_rank: dict[int, Times]
    wire_us: Times | None
    lists: int
    left_out: int

    def total_us(self, tp_rank: int) -> float | None:
        """Median over cycles of what one rank spent in the phase's collectives; None if not timed."""
        own = self.by_rank.get(tp_rank)
        return None if own is None else float(np.median(own.sum(axis=1)))

    def wait_us(self, tp_rank: int) -> float | None:
        """Median over cycles of what one rank spent above the wire; None if not told from it."""
        total = self.total_us(tp_rank)
        return None if total is None or self.wire_us is None else max(total - float(self.wire_us.sum()), 0.0)


def phase_times(
    ranks: Mapping[int, Sequence[SpanCycle]], event_pair_us: Mapping[int, float | None]
) -> dict[str, PhaseTimes]:
    """Return the phases of one configuration whose collectives were timed, by name.

    `event_pair_us`, by rank, is what a pair of events adds to what it times inside a graph; it is taken out
    of every duration there, none of which falls below 0. A rank that timed nothing usable is not in
    `by_rank`.
    """
    return {name: found for name in _PHASES if (found := _phase(name, ranks, event_pair_us))}


def _phase(
    name: str, ranks: Mapping[int, Sequence[SpanCycle]], event_pair_us: Mapping[int, float | None]
) -> PhaseTimes | None:
    lists = {
        rank: [
            tuple(max(value - _events_us(cycle, name, event_pair_us.get(rank)), 0.0) for value in values)
            for cycle in cycles
            if (values := (cycle.collectives_us or {}).get(name)) is not None
        ]
        for rank, cycles in ranks.items()
    }
    lengths = Counter(len(values) for own in lists.values() for values in own)
    usual = max(lengths, key=lambda length: (lengths[length], length), default=0)
    if not usual:
        return None
    alike = {rank: [values for values in own if len(values) == usual] for rank, own in sorted(lists.items())}
    by_rank = {rank: np.array(own, dtype=float) for rank, own in alike.items() if own}
    count = sum(lengths.values())
    return PhaseTimes(
        phase=name,
        by_rank=by_rank,
        wire_us=wire_us(list(by_rank.values())) if len(by_rank) > 1 else None,
        lists=count,
        left_out=count - lengths[usual],
    )


def _events_us(cycle: SpanCycle, phase: str, pair_us: float | None) -> float:
    """Return what the events of one pair took; of eager calls nothing: there the GPU waits for the host."""
    return 0.0 if pair_us is None or (cycle.graph or {}).get(phase) is False else pair_us


def wire_us(by_rank: Sequence[Times]) -> Times:
    """Return the wire time of each place, of `by_rank`'s (cycles, places) in us; ValueError without ranks.

    In a kernel trace it is the shortest duration over the ranks, median over cycles. Here each rank
    timed other cycles, so no two durations are of one instance. But in every cycle one rank comes last
    and waits for nobody: of all durations at a place, ranks weighing the same however many cycles they
    timed, one in `len(by_rank)` is without a wait, and these are the shortest. Their median is the
    smallest duration that has half of one rank's share at or below it.

    The smallest of the ranks' medians is this only where one rank is late in more than half of the
    cycles; where ranks take turns, it holds waiting. A low quantile of each rank would have to know how
    often that rank is late. Where nobody waits, this is a low quantile of the noise, as the shortest
    over ranks is in a trace. It is never above the median of any rank.
    """
    if not by_rank:
        raise ValueError("wire time of no ranks")
    durations = np.concatenate(by_rank)
    weights = np.concatenate([np.full(len(own), 1.0 / len(own)) for own in by_rank])
    order = np.argsort(durations, axis=0, kind="stable")
    reached = np.cumsum(weights[order], axis=0)
    at = np.expand_dims((reached >= _HALF).argmax(axis=0), 0)
    return np.asarray(np.take_along_axis(np.take_along_axis(durations, order, axis=0), at, axis=0)[0])


def collective_report(times: PhaseTimes, info: RunInfo) -> CollectiveReport:
    """Return one report for all collectives of a phase; wire and wait None with one rank alone.

    `wire_us` is the median over places, so that of an all-reduce where these are most. Waits are summed
    over a cycle before their median is taken: of many places with late ranks in turn none has the
    usual wait, their sum has.
    """
    wire, ranks = times.wire_us, list(times.by_rank)
    first = [float(np.median(own[:, 0])) for own in times.by_rank.values()]
    first_waits = None if wire is None else np.array(first) - wire[0]
    waits = [wait for rank in ranks if (wait := times.wait_us(rank)) is not None]
    return CollectiveReport(
        phase=times.phase,
        op="collective",
        algorithm=None,
        group_size=_group_size(times.phase, info),
        message_bytes=None,
        per_cycle=float(next(iter(times.by_rank.values())).shape[1]),
        wire_us=None if wire is None else float(np.median(wire)),
        wait_us_per_cycle=float(np.mean(waits)) if waits else None,
        first_wait_us=None if first_waits is None else float(first_waits.mean()),
        first_wait_max_us=None if first_waits is None else float(first_waits.max()),
        matched_fraction=None,
        source="spans",
    )


def _group_size(phase: str, info: RunInfo) -> int | None:
    """Return the ranks of the target's group; a draft that was to run on fewer may have followed."""
    differs = phase in _DRAFT_PHASES and info.draft_tp not in (None, info.tp_size)
    return None if differs else info.tp_size


def unlike_lists(timed: Sequence[Mapping[str, PhaseTimes]]) -> list[str]:
    """Return a sentence for each phase of which lists were left out, over all configurations."""
    said = []
    for name in _PHASES:
        found = [phases[name] for phases in timed if name in phases]
        left_out = sum(times.left_out for times in found)
        if left_out:
            of_all = sum(times.lists for times in found)
            said.append(
                f"{left_out} of {of_all} lists of collectives timed in {name} are left out: they have "
                "another length than most of their configuration, so their places are other collectives"
            )
    return said


def unknown_pairs(
    timed: Sequence[Mapping[str, PhaseTimes]], event_pair_us: Mapping[int, float | None]
) -> list[str]:
    """Return a sentence on the ranks whose collectives hold the time of their own events, if any does."""
    ranks = {rank for phases in timed for times in phases.values() for rank in times.by_rank}
    unknown = [rank for rank in sorted(ranks) if event_pair_us.get(rank) is None]
    if not unknown:
        return []
    named = f"rank {unknown[0]} do" if len(unknown) == 1 else f"{len(unknown)} ranks do"
    return [
        f"the spans of {named} not say what a pair of events takes, so each collective timed there is too "
        "long by that, 4 to 5 us on an H200"
    ]
