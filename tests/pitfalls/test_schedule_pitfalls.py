"""Schedules by batch size that flap, and speed-ups that cannot be (docs/pitfalls.md), on made data."""

from __future__ import annotations

import pytest

from tests.model.made_answers import at, near
from tests.model.made_fits import fit, together
from tests.model.made_runs import configuration, inspection, run, sweep
from toolkit.recommend.schedule import schedule
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Question

FALLING = (0.7, 0.5, 0.35, 0.25, 0.18)
BATCHES = (1, 2, 4, 8, 16)
ASKED = {"accept_by_position": FALLING, "steps": (0, 3, 5)}


def three_or_five(*gains: float) -> CostModel:
    """Return a fit of runs at five batch sizes, at which 5 steps gain so much over 3."""
    length3, length5 = 1 + sum(FALLING[:3]), 1 + sum(FALLING)
    runs = []
    for batch, gain in zip(BATCHES, gains, strict=True):
        three = 12_000.0 + 50 * batch
        cycles = {0: 10_000.0 + 40 * batch, 3: three, 5: three * length5 / length3 / (1 + gain)}
        for again in range(3):
            runs += [
                run(f"k{steps}b{batch} {again}", configuration(steps, us, batch_size=batch))
                for steps, us in cycles.items()
            ]
    return fit(inspection(*runs))


def test_a_schedule_does_not_flap_between_step_counts_that_tie() -> None:
    """Pitfall 18: 5 steps gain 1.7 % at every other batch, and lose 1.7 % at the rest."""
    model = three_or_five(0.017, -0.017, 0.017, -0.017, 0.017)
    best = []
    for batch in BATCHES:
        answer = near(model, **ASKED, batch_size=batch)
        assert answer.recommendation.candidate is not None
        best.append(answer.candidates[answer.recommendation.candidate].num_steps)
    assert best == [5, 3, 5, 3, 5]
    assert schedule(model, Question(**ASKED)) == [(batch, 5) for batch in BATCHES]  # type: ignore[arg-type]


def test_a_schedule_changes_where_the_gain_is_no_tie() -> None:
    """Pitfall 18: the other way round there is a gain of 12 % to be had from batch 4 on."""
    model = three_or_five(0.12, 0.12, -0.12, -0.12, -0.12)
    found = dict(schedule(model, Question(**ASKED)))  # type: ignore[arg-type]
    assert found == {1: 5, 2: 5, 4: 3, 8: 3, 16: 3}


@pytest.mark.parametrize("short", (0.02, 0.04))
def test_no_forecast_speed_up_exceeds_the_accept_length(short: float) -> None:
    """Pitfall 19: cycles of 1 step were measured 2 and 4 % shorter than the plain step that each contains."""
    rows = {batch: 10_000.0 + 100 * batch for batch in (1, 4)}
    model = fit(
        together(
            *(
                sweep((0, us), (1, us * (1 - short)), (3, us * 1.05), (5, us * 1.15), batch=batch)
                for batch, us in rows.items()
            )
        )
    )
    for batch in (1, 2, 4):
        answer = near(model, accept_by_position=FALLING, steps=(0, 1, 2, 3), batch_size=batch)
        none = at(answer, 0).tok_s.value or 1.0
        for steps in (1, 2, 3):
            one = at(answer, steps)
            assert (one.tok_s.value or 0.0) / none <= (one.accept_length or 0.0) * (1 + 1e-9)
        assert any("held at the plain step" in mark for mark in at(answer, 1).extrapolated)
        assert not any("held at the plain step" in mark for mark in at(answer, 3).extrapolated)
        assert answer.recommendation.gain.hi is not None
