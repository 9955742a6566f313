"""Checks of collectives that events timed: ranks that are missing, and what a trace says of the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from toolkit.analysis.cells.cell_key import CellKey, agree, key_of
from toolkit.schema.inspection import Configuration, HealthCheck
from toolkit.schema.spans import RankSpans

_ALIKE = 2.0  # between two loads waits differ; a wrong count or order of collectives makes more than that
_WIDEST = 4096  # ranks; a file that names more is damaged
_MOST_LISTED = 16


def timed_ranks(
    spans: Sequence[RankSpans], cells: Sequence[Configuration], tp_size: int | None
) -> HealthCheck | None:
    """Say whether every rank timed collectives, where the spans' are used; None where they are not."""
    if not any(report.source == "spans" for cell in cells for report in cell.collectives):
        return None
    timed = {rank.tp_rank for rank in spans if any(c.collectives_us for c in rank.cycles)}
    expected = tp_size or max(timed, default=0) + 1
    missing = [rank for rank in range(min(expected, _WIDEST)) if rank not in timed]
    detail = f"{len(timed)} of {expected}"
    if missing:
        named = ", ".join(map(str, missing[:_MOST_LISTED])) + (" ..." if len(missing) > _MOST_LISTED else "")
        follows = "wire and wait of collectives need the spans of two ranks or more"
        if len(timed) > 1:
            follows = (
                "wire time is then an upper bound, because a missing rank may have been the last to arrive"
            )
        detail = f"rank {named} of {expected} timed no collective: {follows}"
    elif len(timed) == 1:
        detail = "one rank alone: its wire and wait cannot be told apart"
    return HealthCheck(
        check="ranks that timed collectives", ok=not missing if expected > 1 else None, detail=detail
    )


def collectives_agree(
    from_spans: Mapping[CellKey, Configuration],
    from_trace: Mapping[CellKey, Configuration],
) -> HealthCheck | None:
    """Compare what a phase's collectives take by events and by kernels, on the rank that waits least in each.

    Which rank comes last, and is waited for, changes from one load to the next. The engine's profiler holds
    ranks up by turns, more so with stacks: a trace that says more proves nothing. None if not in both.
    """
    pairs = list(_pairs(from_spans, from_trace))
    if not pairs:
        return None
    phase, events_us, kernels_us = max(pairs, key=lambda pair: _apart(pair[1], pair[2]))
    ratio = events_us / kernels_us if kernels_us > 0 else float("inf")
    ok: bool | None = _apart(events_us, kernels_us) <= _ALIKE
    detail = (
        f"{phase}'s collectives take the rank that waits least {events_us:,.1f} us by the spans, "
        f"{kernels_us:,.1f} by the trace (ratio {ratio:.2f}), and no phase is further apart"
    )
    if not ok and events_us < kernels_us:
        ok, detail = None, f"{detail}; the engine's profiler lengthens the waits in a trace"
    elif not ok:
        detail += "; the trace's are kept: where both are of one load, one of them mistook what it counts"
    return HealthCheck(check="collectives agree in trace and spans", ok=ok, detail=detail)


def _pairs(
    from_spans: Mapping[CellKey, Configuration], from_trace: Mapping[CellKey, Configuration]
) -> Iterator[tuple[str, float, float]]:
    """Yield phase and the two times in us wherever ranks have both."""
    for one, other in product(from_spans.values(), from_trace.values()):
        if not agree(key_of(one), key_of(other)):
            continue
        traced = {rank.tp_rank: rank.phases for rank in other.ranks}
        times: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for rank in one.ranks:
            for name, time in rank.phases.items():
                kernels = traced.get(rank.tp_rank, {}).get(name)
                if kernels and kernels.collectives_us is not None and time.collectives_us is not None:
                    times[name].append((time.collectives_us, kernels.collectives_us))
        for name, pairs in times.items():
            yield name, min(events for events, _ in pairs), min(kernels for _, kernels in pairs)


def _apart(first_us: float, second_us: float) -> float:
    """Return by how much the longer exceeds the shorter, as a ratio."""
    if first_us == second_us:
        return 1.0
    shorter = min(first_us, second_us)
    return max(first_us, second_us) / shorter if shorter > 0 else float("inf")
