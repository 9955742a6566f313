"""How far the share of cycles that kept a draft position is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from toolkit.schema.inspection import AcceptanceReport

_Z90 = 1.6449  # of a normal distribution: 5 % on either side


def position_intervals(acceptance: AcceptanceReport) -> tuple[tuple[float, float], ...]:
    """Return a 90 % interval for each of `accept_by_position` (Wilson's, so it stays within 0 and 1).

    Cycles of one request are alike, so they count for less: by as much as the standard error of the
    accept length exceeds that of independent cycles. Without cycles nothing is known: 0 to 1.
    """
    shares = acceptance.accept_by_position
    if not acceptance.cycles:
        return tuple((0.0, 1.0) for _ in shares)
    count = acceptance.cycles / _design_effect(shares, acceptance)
    return tuple(_wilson(share, count) for share in shares)


def to_last_position(acceptance: AcceptanceReport, num_steps: int | None) -> AcceptanceReport:
    """Return shares for every draft proposed: a count ends at the last position that any cycle kept."""
    lacking = max((num_steps or 0) - len(acceptance.accept_by_position), 0)
    return replace(acceptance, accept_by_position=(*acceptance.accept_by_position, *[0.0] * lacking))


def _design_effect(shares: Sequence[float], acceptance: AcceptanceReport) -> float:
    """Return variance of the mean accept length over that of as many independent cycles, at least 1."""
    mean = math.fsum(shares)
    square = math.fsum((2 * place + 1) * share for place, share in enumerate(shares))
    variance = square - mean**2
    if acceptance.se is None or variance <= 0:
        return 1.0
    return max(1.0, acceptance.se**2 * acceptance.cycles / variance)


def _wilson(share: float, count: float) -> tuple[float, float]:
    spread = _Z90**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = _Z90 * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share)
