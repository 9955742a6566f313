"""Intervals are those of repeats, and say how many more are needed."""

from __future__ import annotations

import random

import pytest
from scipy.special import stdtrit

from toolkit.live.confidence import _t, more_repeats, ratio_of_pairs, throughput
from toolkit.schema.client import ClientRepeat


def repeats(*seconds: float) -> list[ClientRepeat]:
    return [ClientRepeat(seconds=one, output_tokens=100) for one in seconds]


def test_throughput_is_tokens_over_seconds_of_all_repeats() -> None:
    found = throughput(repeats(1.0, 3.0))
    assert found is not None
    assert found.value == 50
    assert found.lo < 50 < found.hi


@pytest.mark.parametrize("repeats", [2, 3, 5, 6, 7, 10, 30, 1000])
def test_the_quantile_is_students(repeats: int) -> None:
    assert _t(repeats) == pytest.approx(stdtrit(repeats - 1, 0.95), abs=6e-4)


def test_one_repeat_has_no_interval() -> None:
    assert throughput(repeats(1.0)) is None
    assert more_repeats(repeats(1.0)) is None


def test_the_interval_covers_the_truth_nine_times_in_ten() -> None:
    rng = random.Random(5)
    inside = 0
    for _ in range(1000):
        found = throughput(repeats(*(rng.gauss(1.0, 0.1) for _ in range(6))))
        assert found is not None
        inside += found.lo <= 100 <= found.hi
    assert 870 <= inside <= 930


def test_equal_repeats_need_no_more_and_scattered_ones_do() -> None:
    assert more_repeats(repeats(1.0, 1.0, 1.0)) == 0
    few = more_repeats(repeats(0.98, 1.0, 1.02, 1.0))
    many = more_repeats(repeats(0.9, 1.0, 1.1, 1.0))
    assert few is not None
    assert many is not None
    assert 0 < few < many


@pytest.mark.parametrize("cost", [0.0, 0.004])
def test_a_drift_that_both_of_a_pair_share_is_no_overhead(cost: float) -> None:
    pairs = [(10.0 + drift, (10.0 + drift) * (1 + cost)) for drift in (0, 3, 7, 20)]
    found = ratio_of_pairs(pairs)
    assert found is not None
    assert found.value == pytest.approx(cost, abs=1e-9)
    assert found.hi - found.lo < 1e-9
