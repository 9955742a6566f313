"""Draft forwards inside one graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.analysis.trace.draft_steps import repeating_segments


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


FORWARD = tuple(range(20))


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_equal_forwards_are_found_by_their_period(count: int) -> None:
    found = repeating_segments(ids(*FORWARD * count))
    assert found is not None
    assert (found.first, found.period, found.count, found.covered) == (0, 20, count, 1.0)


def test_the_kernels_around_the_forwards_are_left_outside() -> None:
    found = repeating_segments(ids(90, 91, *FORWARD * 3, 92), 3)
    assert found is not None
    assert (found.first, found.period, found.count) == (2, 20, 3)
    assert found.covered == pytest.approx(60 / 63)


def test_layers_that_repeat_are_no_forwards_because_they_choose_no_token() -> None:
    layer, head = tuple(range(12)), (50, 51)
    names = ids(*(layer * 4 + head) * 2)
    found = repeating_segments(names, None, names == 51)
    assert found is not None
    assert (found.count, found.period) == (2, 50)


def test_one_forward_is_one_if_a_token_is_chosen_once() -> None:
    names = ids(*tuple(range(12)) * 8, 50, 51)
    found = repeating_segments(names, None, names == 51)
    assert found is not None
    assert (found.count, found.period) == (1, 98)


def test_a_graph_that_no_period_covers_gives_no_numbers() -> None:
    assert repeating_segments(ids(*FORWARD, *range(100, 145)), 2) is None
    assert repeating_segments(ids(*range(64))) is None


@given(
    period=st.integers(10, 40),
    count=st.integers(2, 8),
    before=st.integers(0, 2),
    after=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
def test_any_repetition_is_recovered_when_its_count_is_known(
    period: int, count: int, before: int, after: int, seed: int
) -> None:
    forward = np.random.default_rng(seed).permutation(period)
    names = np.r_[np.full(before, 1000), np.tile(forward, count), np.full(after, 1001)].astype(np.int32)
    found = repeating_segments(names, count)
    assert found is not None
    assert (found.first, found.period, found.count) == (before, period, count)
