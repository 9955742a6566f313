"""Intervals for throughput and for ratios, with repeats as the independent units."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toolkit.schema.client import ClientRepeat
from toolkit.schema.profile import Estimate

_Z = 1.6448536269514722  # the normal's 95 % quantile: both ends of a 90 % interval
_FEW_FREE = {
    1: 6.3138,
    2: 2.9200,
    3: 2.3534,
    4: 2.1318,
    5: 2.0150,
}  # Student's t at 95 % by degrees of freedom
_TOLD_APART = 0.02
_MOST_REPEATS = 100_000


def _t(repeats: int) -> float:
    """Return Student's t for a 90 % interval of `repeats` units.

    Beyond a table, its expansion in 1/nu (Abramowitz and Stegun 26.7.5), to 0.0005 from nu = 6 on. A
    host that only profiles needs no scipy for it.
    """
    free = repeats - 1
    if free in _FEW_FREE:
        return _FEW_FREE[free]
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / free + second / free**2 + third / free**3


def throughput(repeats: Sequence[ClientRepeat]) -> Estimate | None:
    """Return tok/s over all repeats with its 90 % interval; None for fewer than two.

    R = sum N / sum T; SE^2 = n/(n-1) * sum (N_i - R T_i)^2 / (sum T)^2 (ratio estimator): the tokens of
    one request share its draws and its clock, so they are one unit.
    """
    if len(repeats) < 2:
        return None
    seconds = sum(one.seconds for one in repeats)
    rate = sum(one.output_tokens for one in repeats) / seconds
    half = _t(len(repeats)) * relative_error(repeats) * rate / math.sqrt(len(repeats))
    return Estimate(value=rate, lo=max(rate - half, 0.0), hi=rate + half)


def relative_error(repeats: Sequence[ClientRepeat]) -> float:
    """Return the standard deviation of one repeat's rate over the rate of all."""
    count, seconds = len(repeats), sum(one.seconds for one in repeats)
    rate = sum(one.output_tokens for one in repeats) / seconds
    spread = math.sqrt(sum((one.output_tokens - rate * one.seconds) ** 2 for one in repeats) / (count - 1))
    return spread / (rate * seconds / count) if rate else 0.0


def more_repeats(repeats: Sequence[ClientRepeat]) -> int | None:
    """Return how many more repeats would tell two such runs apart that differ by 2 %.

    Least n with t(n-1) * cv * sqrt(2/n) <= 0.02: the half-width of the difference of two means.
    """
    if len(repeats) < 2:
        return None
    cv = relative_error(repeats)
    low, high = len(repeats), _MOST_REPEATS
    if _half(low, cv) <= _TOLD_APART:
        return 0
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _half(middle, cv) <= _TOLD_APART else (middle, high)
    return high - len(repeats)


def _half(repeats: int, cv: float) -> float:
    return _t(repeats) * cv * math.sqrt(2 / repeats)


def ratio_of_pairs(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """Return second over first, minus 1, of pairs measured one after the other; None for fewer than two.

    Mean and 90 % interval of log ratios: a drift that both of a pair share cancels.
    """
    if len(pairs) < 2:
        return None
    logs = [math.log(second / first) for first, second in pairs]
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
    half = _t(len(logs)) * deviation / math.sqrt(len(logs))
    return Estimate(value=math.expm1(mean), lo=math.expm1(mean - half), hi=math.expm1(mean + half))
