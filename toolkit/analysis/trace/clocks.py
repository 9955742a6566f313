"""Clocks of ranks, aligned by the collectives themselves: all ranks leave one at about the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]

FARTHEST_NS = 1_000_000  # profilers of one host agree to a few us; more is another host's clock
_LOOSEST_NS = 100_000  # ends that spread more are not of collectives that ended together
_FEWEST = 3  # collectives that tell an offset
_FEWEST_FOR_DRIFT = 30
_FASTEST = 200e-6  # ns a ns; no clock of a computer drifts more
_BINS = 50
_FAR = 6.0  # spreads beyond which an end is not used
_NORMAL = 1.4826  # median absolute deviation to standard deviation


@dataclass(frozen=True, slots=True)
class RankClock:
    """How a rank's clock lies to the reference's: `offset_ns` at `at_ns`, changing by `drift` ns a ns.

    `spread_ns` is how far apart the ends of single collectives still are (standard deviation, robust):
    the uncertainty of a comparison of two moments. It is of `collectives` ends.
    """

    at_ns: int
    offset_ns: float
    drift: float
    spread_ns: float
    collectives: int

    def on_reference(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return moments of this rank on the reference's clock."""
        ahead = self.offset_ns + self.drift * (times_ns - self.at_ns)
        return np.asarray(times_ns - np.rint(ahead).astype(np.int64))

    @property
    def shared(self) -> bool:
        """Whether this can be a clock of the reference's host."""
        return abs(self.offset_ns) <= FARTHEST_NS and self.spread_ns <= _LOOSEST_NS


def reference_clock() -> RankClock:
    """Return the clock of the reference itself."""
    return RankClock(0, 0.0, 0.0, 0.0, 0)


def rank_clock(reference_ends_ns: Times, ends_ns: Times, base_ns: int) -> RankClock | None:
    """Return a rank's clock by the ends of collectives on the reference and on it; None if too few are known.

    Ends are in ns after `base_ns`, since a float does not hold ns since 1970. A line is laid through their
    differences; single ends that lie far from it are left out.
    """
    known = np.isfinite(reference_ends_ns) & np.isfinite(ends_ns)
    if np.count_nonzero(known) < _FEWEST:
        return None
    at = float(np.median(ends_ns[known]))
    moment, ahead = ends_ns[known] - at, (ends_ns - reference_ends_ns)[known]
    offset, drift = float(np.median(ahead)), 0.0
    if len(moment) >= _FEWEST_FOR_DRIFT:
        offset, drift = _line(moment, ahead)
        near = np.abs(ahead - offset - drift * moment) <= _FAR * max(
            _spread(ahead - offset - drift * moment), 1.0
        )
        offset, drift = _line(moment[near], ahead[near])
    spread = _spread(ahead - offset - drift * moment)
    return RankClock(base_ns + round(at), offset, drift, spread, len(moment))


def _line(moment: Times, ahead: Times) -> tuple[float, float]:
    """Return offset and slope of the line through medians of neighbouring values."""
    order = np.argsort(moment)
    blocks = np.array_split(order, min(_BINS, len(order)))
    x = np.array([np.median(moment[block]) for block in blocks])
    y = np.array([np.median(ahead[block]) for block in blocks])
    width = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / width) if width else 0.0
    slope = slope if abs(slope) <= _FASTEST else 0.0
    return float(np.median(y - slope * x)), slope


def _spread(values: Times) -> float:
    return float(_NORMAL * np.median(np.abs(values - np.median(values))))
