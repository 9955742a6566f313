"""Acceptance of one configuration from whatever counted it; counts are pooled, never rates averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toolkit.analysis.accept_rate import settle_convention
from toolkit.analysis.cells.log_windows import LogWindow
from toolkit.analysis.request_ends import Counts, ends_cut, shares_kept, shares_kept_censored
from toolkit.analysis.statistics import block_standard_error
from toolkit.schema.client import RequestCount
from toolkit.schema.inspection import AcceptanceReport, DominantRequest
from toolkit.schema.spans import SpanCycle

_LARGE_SHARE = 0.2  # of all cycles, held by one request
_MANY_TIMES = 3.0  # the cycles of the usual request
_SMALL_CHANGE = 0.03  # of the accept length, by a request that is left out


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
    histograms = [r.correct_drafts_histogram for r in counted]
    cut = ends_cut(counted)
    return AcceptanceReport(
        accept_length=tau,
        accept_by_position=shares_kept_censored(histograms) if cut else shares_kept(histograms),
        cycles=int(cycles.sum()),
        requests=number,
        se=se,
        cut_ends=None if cut is None else number if cut else 0,
        accept_length_by_request=float((tokens / cycles).mean()) if number > 1 else None,
        dominant=_dominant(cycles, tokens),
    )


def _dominant(cycles: Counts, tokens: Counts) -> DominantRequest | None:
    """Return the request whose cycles outweigh the others' and change the accept length, if there is one."""
    if len(cycles) < 2:
        return None
    at = int(cycles.argmax())
    others = np.delete(cycles, at)
    share = float(cycles[at] / cycles.sum())
    if share < _LARGE_SHARE or cycles[at] < _MANY_TIMES * float(np.median(others)):
        return None
    own, rest = float(tokens[at] / cycles[at]), float(np.delete(tokens, at).sum() / others.sum())
    pooled = float(tokens.sum() / cycles.sum())
    if abs(pooled / rest - 1) < _SMALL_CHANGE:
        return None
    return DominantRequest(number=at + 1, cycles_share=share, accept_length=own, others_accept_length=rest)


def from_totals(totals: RequestCount) -> AcceptanceReport | None:
    """Return acceptance from counters of a whole load; the spread between its requests is not known."""
    pooled = from_requests([totals])
    return replace(pooled, requests=0, cut_ends=None) if pooled else None


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
        accept_by_position=shares_kept([histogram.tolist()]),
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
