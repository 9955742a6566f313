"""Cycles that the end of their request cut: right-censored, since what was cut off is no rejection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolkit.schema.client import RequestCount

Counts = np.ndarray[Any, np.dtype[np.float64]]
_ROUNDS = 200
_CLOSE = 1e-9
_LEAST = 1e-12


def ends_cut(requests: Sequence[RequestCount]) -> bool | None:
    """Return whether counters leave out what lies beyond the end of a request; None where they do not tell.

    A request makes a token from its prompt, then one a cycle and its correct drafts. Counters that add up
    to more than its output count whole cycles. Where all add up to the output exactly, the last cycle of
    each may be cut.
    """
    beyond = [_beyond(one) for one in requests]
    if any(tokens is not None and tokens > 0 for tokens in beyond):
        return False
    return True if beyond and all(tokens == 0 for tokens in beyond) else None


def _beyond(request: RequestCount) -> int | None:
    if request.output_tokens is None or request.num_correct_drafts is None or not request.verify_cycles:
        return None
    return 1 + request.verify_cycles + request.num_correct_drafts - request.output_tokens


def shares_kept(histograms: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Return S_j, the share of cycles that kept at least j drafts, from pooled histograms."""
    counts = _padded(histograms)
    pooled = counts.sum(axis=0)
    if pooled.sum() <= 0:
        return ()
    at_least = _at_least(pooled)
    return tuple(float(share) for share in at_least[1:] / pooled.sum())


def shares_kept_censored(histograms: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Return S_j with the last cycle of each request right-censored.

    A last cycle that kept i drafts was at risk at positions 1 to i, and kept them. Which one of a request's
    cycles was the last is not recorded, so it is expected (EM). An end falls into a long cycle more often
    and into each of its tokens alike: a last cycle keeps i with a chance in proportion to S_i, another one
    to p_i = S_i - S_{i+1}; so of a request with h_i cycles of i drafts the last is one of those with weight
    h_i S_i / p_i.
    """
    counts = _padded(histograms)
    shares = np.array([1.0, *shares_kept(histograms)])
    if len(shares) < 2:
        return ()
    at_least = _at_least(counts.sum(axis=0))
    for _ in range(_ROUNDS):
        exactly = np.maximum(shares - np.append(shares[1:], 0.0), _LEAST)
        weights = counts * shares / exactly
        totals = weights.sum(axis=1, keepdims=True)
        last = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0).sum(axis=0)
        at_risk = np.maximum(at_least[:-1] - last[:-1], at_least[1:])
        kept = np.divide(at_least[1:], at_risk, out=np.zeros_like(at_risk), where=at_risk > 0)
        found = np.append(1.0, np.cumprod(kept))
        if np.abs(found - shares).max() < _CLOSE:
            break
        shares = found
    return tuple(float(share) for share in shares[1:])


def _padded(histograms: Sequence[Sequence[int]]) -> Counts:
    widest = max((len(one) for one in histograms), default=0)
    return np.array([[*one, *[0] * (widest - len(one))] for one in histograms], dtype=float).reshape(
        len(histograms), widest
    )


def _at_least(counts: Counts) -> Counts:
    return np.asarray(np.cumsum(counts[::-1])[::-1], dtype=float)
