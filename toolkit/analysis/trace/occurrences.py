"""Occurrences of a phase on one rank, with what tells their lost ends: the host's launch, and other ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.analysis.trace.cycles import Phase, TracedCycle
from toolkit.analysis.trace.matched import ends_together
from toolkit.analysis.trace.phase_graphs import Placed
from toolkit.analysis.trace.phase_spans import Occurrence
from toolkit.analysis.trace.trace_view import TraceView
from toolkit.analysis.trace.wire_and_wait import ends_by_others


def occurrences_of(
    view: TraceView, name: str, position: int, cycles: Sequence[TracedCycle]
) -> list[Occurrence]:
    """Return the occurrences of a phase in cycles of the rank at one position of the view."""
    graphs = view.graphs.get(name)
    found = [(cycle, placed) for cycle in cycles if graphs and (placed := graphs.of(position, cycle))]
    without_end = {cycle.start_ns for cycle, placed in found if _lost_its_last_collective(placed)}
    ends = _ends_by_others(view, name, position, without_end) if without_end else {}
    return [Occurrence(placed, _call_ns(placed.phase), ends.get(cycle.start_ns)) for cycle, placed in found]


def _lost_its_last_collective(placed: Placed) -> bool:
    graph = placed.graph
    last = len(graph.usual) - 1
    if last < 0:
        return False
    return bool(graph.slot[last] >= 0 and ends_together(graph.collectives[-1]) and placed.kernel_at(last) < 0)


def _call_ns(phase: Phase) -> int | None:
    """Return when the host launched the phase, if it did so at once: eager kernels have a call each."""
    if not phase.graph or not phase.forwards:
        return None
    return phase.forwards[0].call_ns


def _ends_by_others(view: TraceView, name: str, position: int, starts: set[int]) -> dict[int, int]:
    """Return by the start of a cycle when the other ranks left its last collective, on this rank's clock."""
    if position not in view.compared or len(view.compared) < 2:
        return {}
    at = view.compared.index(position)
    rows = [cycle for cycle in view.aligned if cycle[at].start_ns in starts]
    ends: dict[int, int] = {}
    for part in view.matched(name, rows):
        by_others = ends_by_others(view, part, at)[:, -1]
        for row, end in zip(part.cycles, by_others.tolist(), strict=True):
            if np.isfinite(end):
                ends[rows[row][at].start_ns] = round(end) + part.base_ns
    return ends
