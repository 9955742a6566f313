"""Unions and spans of time intervals, never sums of durations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


def busy_ns(start: Int64s, end: Int64s) -> int:
    """Return the time covered by at least one interval, in ns.

    A kernel launched early waits beside the all-reduce before it, so the sum of durations counts
    that time twice.
    """
    if not len(start):
        return 0
    order = np.argsort(start)
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)[:-1]
    begin = np.maximum(start[1:], reached)
    return int(max(end[0] - start[0], 0) + np.maximum(end[1:] - begin, 0).sum())


def clipped_busy_ns(start: Int64s, end: Int64s, low: int, high: int) -> int:
    """Return the time inside [low, high) covered by at least one interval, in ns."""
    inside = (end > low) & (start < high)
    return busy_ns(np.maximum(start[inside], low), np.minimum(end[inside], high))
