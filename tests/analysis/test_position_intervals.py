"""How far a share of cycles is known: by its cycles, and by how alike they are."""

from __future__ import annotations

import pytest

from tests.model.made_runs import acceptance
from toolkit.analysis.position_intervals import position_intervals, to_last_position


def test_a_hundred_cycles_know_a_half_to_eight_percent() -> None:
    ((lo, hi),) = position_intervals(acceptance(1.5, accept_by_position=(0.5,), cycles=100))
    assert (lo, hi) == pytest.approx((0.419, 0.581), abs=0.001)  # Wilson's at 1.645


def test_cycles_that_are_alike_know_less() -> None:
    shares = (0.5,)  # one draft kept in half of the cycles: variance 1/4
    apart = acceptance(1.5, accept_by_position=shares, cycles=400, se=0.025)
    alike = acceptance(1.5, accept_by_position=shares, cycles=400, se=0.05)  # as 100 independent ones
    assert position_intervals(apart) == position_intervals(
        acceptance(1.5, accept_by_position=shares, cycles=400)
    )
    assert position_intervals(alike) == position_intervals(
        acceptance(1.5, accept_by_position=shares, cycles=100)
    )


def test_a_share_of_all_or_none_keeps_an_interval_on_one_side() -> None:
    all_of, none_of = position_intervals(acceptance(2.0, accept_by_position=(1.0, 0.0), cycles=50))
    assert all_of[1] == 1.0 and 0.9 < all_of[0] < 1.0
    assert none_of[0] == 0.0 and 0.0 < none_of[1] < 0.1


def test_without_cycles_nothing_is_known() -> None:
    assert position_intervals(acceptance(1.5, accept_by_position=(0.5,), cycles=0)) == ((0.0, 1.0),)


def test_positions_that_no_cycle_kept_are_known_to_be_nothing() -> None:
    counted = acceptance(2.0, accept_by_position=(1.0,), cycles=50)
    assert to_last_position(counted, 3).accept_by_position == (1.0, 0.0, 0.0)
    assert to_last_position(counted, None) == counted
