"""Acceptance of one configuration from whatever counted it; counts are pooled, never rates averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toolkit.analysis.accept_rate import settle_convention
from toolkit.analysis.cells.log_windows import LogWindow
from toolkit.analysis.statistics import block_standard_error
from toolkit.schema.client import RequestCount
from toolkit.schema.inspection import AcceptanceReport
from toolkit.schema.spans import SpanCycle


def from_requests(requests: Sequence[RequestCount]) -> AcceptanceReport | None:
    """Return acceptance from per-request counters, its standard error from the spread between requests.

    tau = sum of tokens / sum of cycles over requests; cycles of one request are alike, so requests are
    the units: SE^2 = R/(R-1) * sum (N_r - tau c_r)^2 / (sum c_r)^2 (ratio estimator). One request
    alone gives no standard error.
    """
    counted = [r for r in requests if r.verify_cycles and r.num_correct_drafts is not None]
    if not counted:
        return None
    cycles = np.array([r.verify_cycles for r in counted], dtype=float)
    tokens = cycles + np.array([r.num_correct_drafts for r in counted], dtype=float)
    tau = float(tokens.sum() / cycles.sum())
    number = len(counted)
    se = None
    if number > 1:
        residual = float(((tokens - tau * cycles) ** 2).sum())
        se = math.sqrt(number / (number - 1) * residual) / float(cycles.sum())
    return AcceptanceReport(
        accept_length=tau,
        accept_by_position=_by_position([r.correct_drafts_histogram for r in counted]),
        cycles=int(cycles.sum()),
        requests=number,
        se=se,
    )


def from_totals(totals: RequestCount) -> AcceptanceReport | None:
    """Return acceptance from counters of a whole load; the spread between its requests is not known."""
    pooled = from_requests([totals])
    return replace(pooled, requests=0) if pooled else None


def _by_position(histograms: Sequence[tuple[int, ...]]) -> tuple[float, ...]:
    """Return S_j, the share of cycles that kept at least j drafts, from pooled histograms."""
    widest = max((len(histogram) for histogram in histograms), default=0)
    pooled = np.zeros(widest)
    for histogram in histograms:
        pooled[: len(histogram)] += histogram
    if pooled.sum() <= 0:
        return ()
    at_least = pooled[::-1].cumsum()[::-1]
    return tuple(float(share) for share in at_least[1:] / pooled.sum())


def from_spans(cycles: Sequence[SpanCycle]) -> AcceptanceReport | None:
    """Return acceptance from the counts that the probe joined to cycles; requests are not known."""
    counts = [kept for cycle in cycles for kept in cycle.correct_drafts or ()]
    if not counts:
        return None
    per_cycle = [
        sum(cycle.correct_drafts) / len(cycle.correct_drafts) for cycle in cycles if cycle.correct_drafts
    ]
    histogram = np.bincount(np.array(counts))
    return AcceptanceReport(
        accept_length=1 + sum(counts) / len(counts),
        accept_by_position=_by_position([tuple(histogram.tolist())]),
        cycles=len(counts),
        se=block_standard_error(per_cycle),
    )


def from_log(windows: Sequence[LogWindow], num_draft_tokens: int | None) -> AcceptanceReport | None:
    """Return acceptance from log windows, each weighted by its running requests.

    A window of the log is many cycles of the same requests; windows are the units of the standard error.
    """
    known = [window for window in windows if window.accept_length is not None]
    if not known:
        return None
    weights = np.array([window.batch_size for window in known], dtype=float)
    lengths = np.array([window.accept_length for window in known], dtype=float)
    rated = [(w.accept_length, w.accept_rate) for w in known if w.accept_length and w.accept_rate is not None]
    settled = settle_convention(rated, num_draft_tokens) if rated else None
    return AcceptanceReport(
        accept_length=float(np.average(lengths, weights=weights)),
        accept_by_position=_mean_positions(known),
        cycles=sum(window.request_cycles or 0 for window in known),
        se=float(lengths.std(ddof=1) / math.sqrt(len(lengths))) if len(lengths) > 1 else None,
        rate=float(np.average([rate for _, rate in rated])) if rated else None,
        rate_kind=settled.convention if settled else None,
    )


def _mean_positions(windows: Sequence[LogWindow]) -> tuple[float, ...]:
    """Return S_j over windows that print it, weighted by their cycles."""
    printing = [window for window in windows if window.accept_by_position]
    if not printing:
        return ()
    widest = max(len(window.accept_by_position) for window in printing)
    weights = np.array([window.request_cycles or 1 for window in printing], dtype=float)
    padded = np.array(
        [(*w.accept_by_position, *[0.0] * (widest - len(w.accept_by_position))) for w in printing]
    )
    return tuple(float(share) for share in np.average(padded, axis=0, weights=weights))
