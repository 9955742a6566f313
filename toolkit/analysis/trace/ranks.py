"""The same cycle on every rank: pairs cycles of different ranks by the common clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.analysis.trace.cycles import RankCycles, TracedCycle

_FARTHEST = 4  # cycles by which the profilers of two ranks may start apart


def aligned_cycles(ranks: Sequence[RankCycles]) -> list[tuple[TracedCycle, ...]]:
    """Return, for each cycle that every rank recorded, that cycle of each rank, in the ranks' order.

    Ranks of one host share a clock to far less than a cycle, so the shift that brings their cycles
    nearest is the right one. Where no shift does (other hosts), cycles pair in order.
    """
    if not ranks or any(not rank.cycles for rank in ranks):
        return []
    starts = [np.array([cycle.start_ns for cycle in rank.cycles]) for rank in ranks]
    shifts = [0] + [_shift(starts[0], other) for other in starts[1:]]
    low = max(0, *(-shift for shift in shifts))
    high = min(len(start) - shift for start, shift in zip(starts, shifts, strict=True))
    return [
        tuple(rank.cycles[i + shift] for rank, shift in zip(ranks, shifts, strict=True))
        for i in range(low, high)
    ]


def _shift(reference: np.ndarray, other: np.ndarray) -> int:
    """Return s such that cycle i of the reference is cycle i+s of the other rank."""
    period = float(np.median(np.diff(reference))) if len(reference) > 1 else np.inf
    best, least = 0, np.inf
    for shift in range(-_FARTHEST, _FARTHEST + 1):
        low, high = max(0, -shift), min(len(reference), len(other) - shift)
        if high - low < min(len(reference), len(other)) / 2:
            continue
        distance = float(np.median(np.abs(other[low + shift : high + shift] - reference[low:high])))
        if distance < least:
            best, least = shift, distance
    return best if least < period else 0
