"""Simulated acceptance: no torch is needed to draw it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.reference.acceptance import AcceptanceCurve, SimulatedAcceptance, read_curve
from toolkit.reference.errors import SettingError

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def test_each_position_is_kept_in_the_asked_share_of_cycles() -> None:
    counts = SimulatedAcceptance(AcceptanceCurve((0.7, 0.5, 0.3)), num_steps=3, seed=1).draw(20_000)
    found = [sum(count > place for count in counts) / len(counts) for place in range(3)]
    assert found == pytest.approx([0.7, 0.5, 0.3], abs=0.015)  # four standard errors


def test_conditional_chances_multiply() -> None:
    curve = read_curve("0.8,0.5", "conditional")
    assert curve and curve.shares == pytest.approx((0.8, 0.4))


def test_beyond_the_last_known_position_its_hazard_goes_on() -> None:
    assert AcceptanceCurve((0.8, 0.4)).at(4) == pytest.approx((0.8, 0.4, 0.2, 0.1))
    assert AcceptanceCurve((0.5,)).at(3) == pytest.approx((0.5, 0.25, 0.125))


def test_fewer_steps_than_positions_take_the_first_ones() -> None:
    assert AcceptanceCurve((0.8, 0.4, 0.1)).at(2) == (0.8, 0.4)


def test_shares_of_one_and_zero_give_the_same_count_every_cycle() -> None:
    assert set(SimulatedAcceptance(AcceptanceCurve((1.0, 1.0, 0.0)), 3, seed=5).draw(500)) == {2}


@given(SHARES, st.integers(1, 8), st.integers(0, 2**31))
def test_counts_are_between_none_and_all_and_equal_for_equal_seeds(
    shares: list[float], num_steps: int, seed: int
) -> None:
    curve = AcceptanceCurve(tuple(sorted(shares, reverse=True)))
    first = SimulatedAcceptance(curve, num_steps, seed).draw(20)
    assert first == SimulatedAcceptance(curve, num_steps, seed).draw(20)
    assert all(0 <= count <= num_steps for count in first)


@pytest.mark.parametrize("text", ["0.5,0.6", "1.2", "-0.1", "a", ""])
def test_what_is_no_curve_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SettingError, match="--accept-by-position") as caught:
        read_curve(text, "position")
    assert "\n" not in str(caught.value)
