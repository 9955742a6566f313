"""Sampled cycles in which ranks looked at different things.

Events inside one rank's graph make it longer, and every other rank waits for it at the next collective: a
time from inside a graph holds only where the other ranks looked at the same thing, or at nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from toolkit.schema.spans import RankSpans, SpanCycle

_LONGER = 1.05  # events inside a graph take time themselves
_NOTHING, _GRAPH, _FORWARDS, _COLLECTIVES = range(4)


def sampled_together(spans: Sequence[RankSpans]) -> tuple[list[RankSpans], str | None]:
    """Return the spans without readings that another rank's events disturbed, and a sentence on them.

    Cycles of two ranks are the same where they began nearest to each other: ranks of one host share a clock.
    """
    if len(spans) < 2:
        return list(spans), None
    kinds = [np.array([_kind(cycle) for cycle in rank.cycles], dtype=np.int8) for rank in spans]
    times = [np.array([cycle.t_ns for cycle in rank.cycles], dtype=np.int64) for rank in spans]
    made, disturbed, sampled = [], 0, 0
    for own, rank in enumerate(spans):
        others = [place for place in range(len(spans)) if place != own and len(times[place])]
        bad = _disturbed(kinds[own], times[own], [(kinds[place], times[place]) for place in others])
        looked = kinds[own] != _NOTHING
        if bad.any() and _too_long(rank.cycles, bad):
            bad = looked  # what seems undisturbed was so as well
        sampled += int(looked.sum())
        disturbed += int(bad.sum())
        cycles = [
            _without_readings(cycle) if out else cycle for cycle, out in zip(rank.cycles, bad, strict=True)
        ]
        made.append(replace(rank, cycles=tuple(cycles)) if bad.any() else rank)
    if not disturbed:
        return made, None
    return made, (
        f"{disturbed} of {sampled} sampled cycles are left out of times from inside graphs: ranks looked at "
        "different things in them and held each other up (a probe of this version does not)"
    )


Kinds = npt.NDArray[np.int8]
Times = npt.NDArray[np.int64]


def _kind(cycle: SpanCycle) -> int:
    if cycle.collectives_us:
        return _COLLECTIVES
    if cycle.draft_steps_us:
        return _FORWARDS
    return _GRAPH if cycle.graph_us else _NOTHING


def _disturbed(kinds: Kinds, times: Times, others: Sequence[tuple[Kinds, Times]]) -> npt.NDArray[np.bool_]:
    """Return for each cycle whether it was sampled and another rank's looked at something else."""
    bad = np.zeros(len(kinds), dtype=bool)
    for their_kinds, their_times in others:
        after = np.clip(np.searchsorted(their_times, times), 1, max(len(their_times) - 1, 1))
        after = np.minimum(after, len(their_times) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.where(times - their_times[before] <= their_times[after] - times, before, after)
        theirs = their_kinds[nearer]
        bad |= (kinds != _NOTHING) & (theirs != _NOTHING) & (theirs != kinds)
    return bad


def _too_long(cycles: Sequence[SpanCycle], bad: npt.NDArray[np.bool_]) -> bool:
    """Return whether a phase seems longer inside its graph than around the call, which cannot be."""
    inside, around = defaultdict(list), defaultdict(list)
    for cycle, out in zip(cycles, bad.tolist(), strict=True):
        for name, us in {} if out else (cycle.graph_us or {}).items():
            if us is not None:
                inside[name].append(us)
        for name, us in (cycle.stage_us or {}).items():
            if us is not None:
                around[name].append(us)
    return any(
        float(np.median(us)) > _LONGER * float(np.median(around[name]))
        for name, us in inside.items()
        if around[name]
    )


def _without_readings(cycle: SpanCycle) -> SpanCycle:
    return replace(cycle, graph_us=None, draft_steps_us=None, collectives_us=None)
