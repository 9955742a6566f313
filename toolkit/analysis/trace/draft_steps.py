"""Single draft forwards inside the one graph that holds all of them, by its repeating kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.cycles import Phase
from toolkit.analysis.trace.kernel_names import class_mask
from toolkit.schema.trace import RankTrace

_MOST_OUTSIDE = 0.25  # share of one period that may lie before the first or after the last repetition
_SHORTEST_PERIOD = 8  # kernels; a one-layer forward has about 30


@dataclass(frozen=True, slots=True)
class Segments:
    """`count` repetitions of `period` kernels from index `first`; `covered` is their share of all kernels."""

    first: int
    period: int
    count: int
    covered: float


def repeating_segments(
    names: NDArray[np.int32], count: int | None = None, choosing: NDArray[np.bool_] | None = None
) -> Segments | None:
    """Find the sequence that repeats back to back in `names` and covers nearly all of them.

    `count` is the number of repetitions if it is known. If not, the most repetitions are taken of
    which each chooses a token (`choosing` marks such kernels): a model's layers repeat too, but
    choose nothing. Returns None where no period covers the graph: then it holds something else than
    equal forwards, or kernels were lost.
    """
    total = len(names)
    if count == 1:
        return Segments(0, total, 1, 1.0)
    if count is not None:
        return _with_count(names, count)
    for repetitions in range(total // _SHORTEST_PERIOD, 1, -1):
        found = _with_count(names, repetitions)
        if found and (choosing is None or _all_choose(found, choosing)):
            return found
    if choosing is not None and _runs(choosing) == 1:
        return Segments(0, total, 1, 1.0)
    return None


def _all_choose(segments: Segments, choosing: NDArray[np.bool_]) -> bool:
    inside = choosing[segments.first : segments.first + segments.count * segments.period]
    return bool(inside.reshape(segments.count, segments.period).any(axis=1).all())


def _runs(mask: NDArray[np.bool_]) -> int:
    """Return the number of unbroken runs of true values."""
    return int(np.count_nonzero(np.diff(np.r_[False, mask].astype(np.int8)) == 1))


def _with_count(names: NDArray[np.int32], count: int) -> Segments | None:
    total = len(names)
    longest = total // count
    shortest = max(_SHORTEST_PERIOD, int(np.ceil(total / (count + 2 * _MOST_OUTSIDE))))
    for period in range(longest, shortest - 1, -1):
        equal = names[:-period] == names[period:]
        outside = total - count * period
        needed = (count - 1) * period
        # first and last forward may differ where they read the graph's inputs and write its outputs
        misses = len(equal) - int(equal.sum())
        if misses <= outside + _MOST_OUTSIDE * period and _mostly_equal(equal, needed):
            first = _best_start(equal, needed, outside)
            return Segments(first, period, count, count * period / total)
    return None


def _mostly_equal(equal: NDArray[np.bool_], needed: int) -> bool:
    return bool(equal.sum() >= (1 - _MOST_OUTSIDE) * needed)


def _best_start(equal: NDArray[np.bool_], needed: int, outside: int) -> int:
    """Return where the repetitions start so that most kernels agree with their follower."""
    if not outside:
        return 0
    agreed = np.r_[0, np.cumsum(equal)]
    scores = [agreed[first + needed] - agreed[first] for first in range(outside + 1)]
    return int(np.argmax(scores))


def step_spans_ns(phase: Phase, trace: RankTrace, count: int | None) -> list[tuple[int, int]] | None:
    """Return start and end of each draft forward of one draft pass; None where it cannot be split.

    A pass of several forwards launched apart gives them as they are; one graph is split by its
    repeating kernel names. A forward runs from a repetition's first kernel to the end of its last.
    """
    if len(phase.forwards) > 1:
        return [(forward.start_ns, forward.end_ns) for forward in phase.forwards]
    kernels = trace.kernels
    ordered = phase.kernels[np.argsort(kernels.start_ns[phase.kernels], kind="stable")]
    names = kernels.name[ordered]
    segments = repeating_segments(names, count, class_mask(trace.names, names, "sampling"))
    if segments is None:
        return None
    spans = []
    for repetition in range(segments.count):
        first = segments.first + repetition * segments.period
        block = ordered[first : first + segments.period]
        start = kernels.start_ns[block]
        spans.append((int(start.min()), int((start + kernels.duration_ns[block]).max())))
    return spans


def step_durations_ns(phase: Phase, trace: RankTrace, count: int | None) -> list[int] | None:
    """Return the time of each draft forward of one draft pass, in ns; None where it cannot be split."""
    spans = step_spans_ns(phase, trace, count)
    return None if spans is None else [end - start for start, end in spans]


def usual_count(counts: Sequence[int]) -> int | None:
    """Return the number of forwards that most passes show, None without passes."""
    values, times = np.unique(np.array(counts, dtype=int), return_counts=True)
    return int(values[np.argmax(times)]) if len(values) else None
