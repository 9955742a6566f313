"""One forecast beside what was measured, and what many of them say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Cycle times in ms; `lo` and `hi` end a 90 % interval. `null_ms` is the straight line's, if any."""

    kind: str
    measured_ms: float
    value_ms: float
    lo_ms: float
    hi_ms: float
    null_ms: float | None = None

    @property
    def error(self) -> float:
        return self.value_ms / self.measured_ms - 1

    @property
    def null_error(self) -> float:
        assert self.null_ms is not None
        return self.null_ms / self.measured_ms - 1

    @property
    def inside(self) -> bool:
        return self.lo_ms * (1 - 1e-9) <= self.measured_ms <= self.hi_ms * (1 + 1e-9)

    @property
    def width(self) -> float:
        return (self.hi_ms - self.lo_ms) / self.measured_ms


def errors_text(points: Sequence[Point]) -> str:
    """Return mean, median and 90th percentile of the absolute errors, and what the intervals hold."""
    errors = 100 * np.abs([point.error for point in points])
    inside = sum(point.inside for point in points)
    width = 100 * float(np.median([point.width for point in points]))
    return (
        f"{len(points)} | {errors.mean():.1f} % | {np.median(errors):.2f} % | "
        f"{np.quantile(errors, 0.9):.2f} % | {inside} | {width:.0f} %"
    )


def null_text(points: Sequence[Point]) -> str:
    """Return the fit's and the straight line's median and 90th percentile, and their ratios."""
    fit = 100 * np.abs([point.error for point in points])
    line = 100 * np.abs([point.null_error for point in points])
    ends = [(float(np.median(fit)), float(np.median(line)))]
    ends.append((float(np.quantile(fit, 0.9)), float(np.quantile(line, 0.9))))
    shown = " | ".join(f"{ours:.2f} / {theirs:.2f} %" for ours, theirs in ends)
    return f"{len(points)} | {shown} | {ends[0][0] / ends[0][1]:.2f}, {ends[1][0] / ends[1][1]:.2f}"


def coverage_text(points: Iterable[Point]) -> str:
    """Return how many intervals hold what was measured, tested against 90 % exactly."""
    points = list(points)
    inside = sum(point.inside for point in points)
    chance = binomtest(inside, len(points), 0.9).pvalue
    width = 100 * float(np.median([point.width for point in points]))
    said = "does not reject" if chance >= 0.05 else "rejects"
    share = 100 * inside / len(points)
    return (
        f"{inside} of {len(points)} intervals hold the measured cycle ({share:.1f} %); an exact binomial "
        f"test {said} 90 % (p = {chance:.3f}); median width {width:.0f} %"
    )
