"""The same cycle on every rank: pairs cycles of ranks whose clocks agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.cycles import RankCycles, TracedCycle

_FARTHEST = 4  # cycles by which the profilers of two ranks may start apart
_NEAR = 0.5  # of a period: what lies farther is another cycle
_CLOSE = 0.2  # of a period: within which cycles pair under a right offset, waits apart
_MOST = 0.8  # share of the pairs of the best offset that a smaller one must have
_PARTS = 4  # of all cycles, each of which may be behind another number of lost ones
_MOST_CLOCKS = 64  # ranks that are tried as the one to compare with


CycleOnRanks = tuple[TracedCycle, ...]


@dataclass(frozen=True, slots=True)
class AlignedCycles:
    """Cycles that all `ranks` (positions in the list given) recorded, each once, on those ranks in order."""

    ranks: tuple[int, ...]
    cycles: tuple[CycleOnRanks, ...]


def aligned_cycles(ranks: Sequence[RankCycles], among: Sequence[int] | None = None) -> AlignedCycles:
    """Pair the cycles of the ranks that share a clock: of one host, to far less than a cycle.

    Where not all do, they are the largest set that shares one, and the others are compared with nobody.
    `among`: positions of the ranks that are taken into account; all, if not given.
    """
    taken = range(len(ranks)) if among is None else among
    full = [position for position in taken if ranks[position].cycles]
    if not full:
        return AlignedCycles((), ())
    starts = {at: np.array([cycle.start_ns for cycle in ranks[at].cycles], dtype=np.int64) for at in full}
    period = max(1.0, float(np.median([_period_ns(own) for own in starts.values()])))
    best: dict[int, int] = {}
    for reference in full[:_MOST_CLOCKS]:
        near = {at: _offset_ns(starts[reference], starts[at], period) for at in full}
        near = {at: offset for at, offset in near.items() if abs(offset) < _NEAR * period}
        if len(near) > len(best):
            best = near
        if len(best) == len(full):
            break
    return _paired(ranks, starts, best, period)


def _period_ns(starts: NDArray[np.int64]) -> float:
    return float(np.median(np.diff(starts))) if len(starts) > 1 else np.inf


def _offset_ns(reference: NDArray[np.int64], other: NDArray[np.int64], period: float) -> int:
    """Return by how much the other rank's cycles start later, for the nearest pairing of most cycles.

    Either rank may have lost cycles, behind which others pair: offsets are tried that parts of the
    cycles have, and of those by which most cycles find a partner the smallest is taken.
    """
    tried: dict[int, int] = {}
    for shift in range(-_FARTHEST, _FARTHEST + 1):
        low, high = max(0, -shift), min(len(reference), len(other) - shift)
        ahead = other[low + shift : max(high, low) + shift] - reference[low : max(high, low)]
        for part in np.array_split(ahead, _PARTS):
            if len(part):
                offset = int(np.median(part))
                left = np.abs(other[_nearest(other, reference + offset)] - reference - offset)
                tried[offset] = int(np.count_nonzero(left < _CLOSE * period))
    most = max(tried.values(), default=0)
    return min((offset for offset, count in tried.items() if count >= _MOST * most), key=abs, default=0)


def _paired(
    ranks: Sequence[RankCycles], starts: dict[int, NDArray[np.int64]], offsets: dict[int, int], period: float
) -> AlignedCycles:
    """Pair each cycle of the first rank with the nearest of every other one, offset taken out."""
    kept = tuple(sorted(offsets))
    first = starts[kept[0]] - offsets[kept[0]]
    partners: list[list[int]] = []
    for at in kept:
        own = starts[at] - offsets[at]
        there, back = _nearest(own, first), _nearest(first, own)
        mutual = back[there] == np.arange(len(first))  # a cycle that was lost has no partner
        near = np.abs(own[there] - first) < _NEAR * period
        partners.append(np.where(mutual & near, there, -1).tolist())
    rows = [row for row in zip(*partners, strict=True) if min(row) >= 0]
    cycles = tuple(
        tuple(ranks[at].cycles[index] for at, index in zip(kept, row, strict=True)) for row in rows
    )
    return AlignedCycles(kept, cycles)


def _nearest(among: NDArray[np.int64], moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each moment the index of the nearest one in `among`, which is sorted and not empty."""
    after = np.clip(np.searchsorted(among, moments), 1, max(1, len(among) - 1))
    before, after = after - 1, np.minimum(after, len(among) - 1)
    nearer = np.abs(among[before] - moments) <= np.abs(among[after] - moments)
    return np.asarray(np.where(nearer, before, after))
