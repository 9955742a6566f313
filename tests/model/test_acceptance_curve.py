"""Accept lengths at other step counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.made_runs import acceptance, configuration, inspection, run
from toolkit.model.acceptance_curve import AcceptLengths, Given, accept_lengths, children_per_step
from toolkit.model.cells import cells_of
from toolkit.model.pooled_acceptance import pooled_curve, speculative_settings
from toolkit.schema.cost import AcceptanceCurve

FLAT = AcceptanceCurve(
    at_risk=(1000.0, 500.0, 250.0), kept=(500.0, 250.0, 125.0), design_effect=1, runs=("r",)
)


def lengths(curve: AcceptanceCurve | None, given: Given | None, steps: int = 8) -> AcceptLengths:
    return accept_lengths(curve, given, steps, 1, 50, 0)


def test_a_measured_curve_is_returned_as_it_is() -> None:
    made = lengths(FLAT, None)
    assert made.values[:4] == pytest.approx([1, 1.5, 1.75, 1.875], rel=1e-6)
    assert made.source == "measured"
    assert made.known_steps == 3


def test_the_tail_falls_below_a_constant_hazard() -> None:
    made = lengths(FLAT, None)
    assert 1.875 < made.values[8] < 1 + sum(0.5**j for j in range(1, 9))


def test_a_length_given_is_met_at_its_step_count_in_every_draw() -> None:
    made = lengths(FLAT, Given(accept_length=2.2, num_steps=3))
    assert made.values[3] == pytest.approx(2.2, abs=1e-6)
    assert made.draws[:, 3] == pytest.approx(np.full(50, 2.2), abs=1e-6)
    assert made.source == "measured"


def test_without_a_curve_the_prior_spreads_a_length() -> None:
    made = lengths(None, Given(accept_length=2.16, num_steps=5))
    assert made.values[5] == pytest.approx(2.16, abs=1e-6)
    assert made.source == "prior"
    hazards = np.diff(made.values)[1:] / np.diff(made.values)[:-1]
    assert (np.diff(hazards) < 1e-9).all()
    assert np.ptp(made.draws[:, 2]) > 0.01


def test_shares_by_position_are_kept() -> None:
    made = lengths(None, Given(by_position=(0.7, 0.5, 0.3)))
    assert made.values[:4] == pytest.approx([1, 1.7, 2.2, 2.5])


def test_a_wider_tree_accepts_more_but_never_more_than_its_depth() -> None:
    chain = accept_lengths(FLAT, None, 5, 1, 50, 0)
    tree = accept_lengths(FLAT, None, 5, 4, 50, 0, children=4.0)
    assert tree.values[5] > chain.values[5]
    assert (tree.draws <= np.arange(6) + 1 + 1e-9).all()


def test_a_tree_with_no_more_to_verify_than_a_chain_keeps_fewer_drafts() -> None:
    chain = accept_lengths(FLAT, None, 5, 1, 50, 0)
    tree = accept_lengths(FLAT, None, 5, 4, 50, 0, children=children_per_step(5, 6, 4))
    assert 0.6 < (tree.values[5] - 1) / (chain.values[5] - 1) < 1.0


@given(steps=st.integers(1, 12), share=st.floats(0.0, 1.0))
def test_any_possible_length_can_be_spread(steps: int, share: float) -> None:
    made = accept_lengths(None, Given(accept_length=1 + share * steps, num_steps=steps), 12, 1, 5, 0)
    assert made.values[steps] == pytest.approx(1 + share * steps, abs=1e-3)
    assert (np.diff(made.values) >= -1e-12).all()
    assert (made.values <= np.arange(13) + 1 + 1e-9).all()


def test_simulated_acceptance_is_no_curve_and_no_length() -> None:
    told = acceptance(2.2, accept_by_position=(0.8, 0.4))
    for kind, expected in (("simulated", False), ("real", True)):
        made = run("r", configuration(2, 9000.0, acceptance=told), acceptance_kind=kind)
        cells, _ = cells_of(inspection(made))
        assert (pooled_curve(cells) is not None) is expected
        assert (speculative_settings(cells)[0].accept_length is not None) is expected


def test_runs_of_different_depth_pool_by_who_was_at_risk() -> None:
    short = configuration(1, 8000.0, acceptance=acceptance(1.5, accept_by_position=(0.5,), cycles=900))
    long = configuration(2, 9000.0, acceptance=acceptance(1.9, accept_by_position=(0.6, 0.3), cycles=100))
    cells, _ = cells_of(inspection(run("r", short, long, acceptance_kind="real")))
    curve = pooled_curve(cells)
    assert curve is not None
    assert curve.at_risk == pytest.approx((1000, 60))
    assert curve.kept == pytest.approx((510, 30))
