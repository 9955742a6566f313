"""Wire apart from wait in collectives that were matched over ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.kernel_names import KernelKind
from toolkit.analysis.trace.lost_collectives import others_ends_ns, told_durations, with_usual
from toolkit.analysis.trace.matched import Matched, Numbers, ended_together, ends_together
from toolkit.analysis.trace.trace_view import TraceView
from toolkit.schema.trace import RankTrace


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """What collectives of one row have in common."""

    op: str
    algorithm: str
    group_size: int | None
    message_bytes: int | None


@dataclass(frozen=True, slots=True)
class SplitCollectives:
    """Collectives of cycles in which ranks replayed one kind of graph: arrays by rank, cycle, collective."""

    found: Matched
    kinds: tuple[CollectiveKind, ...]
    recorded: NDArray[np.bool_]
    durations: Numbers  # lost ones put in
    wire: Numbers  # by rank, since groups of ranks have their own; NaN where a rank's was lost
    waits: Numbers
    whole: NDArray[np.bool_]  # by collective: all ranks take part in one


def split_collectives(view: TraceView, found: Matched) -> SplitCollectives:
    """Return wire and wait of each collective: the last rank to come waits for nobody."""
    traces = [view.traces[at] for at in view.compared]
    kinds = _kinds(view, found)
    groups = np.array([[_group(trace, kind) for kind in kinds] for trace in traces])
    peers = _peers(found, groups)
    clocks = [view.clocks[at] for at in view.compared]
    recorded = np.isfinite(found.durations_ns) & ended_together(found, clocks, peers)
    told = told_durations(found, traces, clocks, peers)
    durations = with_usual(told)
    whole_group = (groups == groups[0]).all(axis=0)
    if len(traces) == 1:  # it waits for nobody that is seen
        nothing = np.broadcast_to(0.0, durations.shape)
        return SplitCollectives(found, kinds, recorded, durations, told, nothing, whole_group)
    wire, waits = np.full(durations.shape, np.nan), np.full(durations.shape, np.nan)
    for slot in range(len(kinds)):
        for group in set(groups[:, slot].tolist()):
            mine = np.flatnonzero(groups[:, slot] == group)
            least = _least(told[mine, :, slot])
            waits[mine, :, slot] = np.maximum(0.0, durations[mine, :, slot] - least)
            wire[mine, :, slot] = np.where(_known(told, recorded, mine, slot), least, np.nan)
    return SplitCollectives(found, kinds, recorded, durations, wire, waits, whole_group)


def ends_by_others(view: TraceView, found: Matched, position: int) -> Numbers:
    """Return when other ranks left each collective, by cycle, in ns after `found.base_ns`.

    On the clock of the rank at that place among those compared; NaN where nobody knows.
    """
    groups = np.array(
        [[_group(view.traces[at], kind) for kind in _kinds(view, found)] for at in view.compared]
    )
    clocks = [view.clocks[at] for at in view.compared]
    return others_ends_ns(found, clocks, _peers(found, groups), position)


def _kinds(view: TraceView, found: Matched) -> tuple[CollectiveKind, ...]:
    first = view.traces[view.compared[0]]
    return tuple(_kind(kind, first, int(found.sample[0, slot])) for slot, kind in enumerate(found.kinds))


def _peers(found: Matched, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return by (rank, collective) whether a rank leaves it together with the first rank."""
    return np.asarray((groups == groups[0]) & np.array([ends_together(kind) for kind in found.kinds]))


def _least(durations: Numbers) -> Numbers:
    """Return the shortest known duration of each cycle, NaN where none is known."""
    shortest = np.where(np.isfinite(durations), durations, np.inf).min(axis=0)
    return np.where(np.isfinite(shortest), shortest, np.nan)


def _known(
    told: Numbers, recorded: NDArray[np.bool_], ranks: NDArray[np.int64], slot: int
) -> NDArray[np.bool_]:
    """Return in which cycles the wire time is known: any rank of which nothing is told may have come last.

    Where that is so in most cycles, half of the ranks are enough, and the wire is an upper bound.
    """
    half = 2 * recorded[ranks, :, slot].sum(axis=0) >= len(ranks)
    every = half & np.isfinite(told[ranks, :, slot]).all(axis=0)
    return np.asarray(every if 2 * every.sum() >= half.sum() else half)


def _group(trace: RankTrace, kind: CollectiveKind) -> int:
    """Return the number of the group that a rank is in for one kind; groups are ranks in a row."""
    return trace.tp_rank // kind.group_size if kind.group_size else 0


def _kind(kind: KernelKind, trace: RankTrace, index: int) -> CollectiveKind:
    group = (int(trace.kernels.group_size[index]) if index >= 0 else 0) or kind.group_size
    group = group or _only_group(trace)
    message = int(trace.kernels.message_bytes[index]) if index >= 0 else 0
    if kind.op == "all_gather":  # launches give one rank's share, a message is the whole array
        message *= group or 0
    return CollectiveKind(str(kind.op), str(kind.algorithm), group, message or None)


def _only_group(trace: RankTrace) -> int | None:
    """Return the size of the rank's groups if all that have more than one member agree."""
    sizes = {len(group.ranks) for group in trace.process_groups if len(group.ranks) > 1}
    return sizes.pop() if len(sizes) == 1 else None
