"""Forecasts near measured configurations are drawn towards them; a held-out one does not help itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.model.made_runs import sweep
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.fit import fit_cost_model
from toolkit.model.recall import fitted_of
from toolkit.model.residuals import pull_at
from toolkit.model.terms import Setting
from toolkit.schema.cost import CostModel

# 5 steps lie 12 % above the line that the others are on
BENT = ((0, 10_000.0), (1, 12_000.0), (2, 13_000.0), (3, 14_000.0), (4, 15_000.0), (5, 18_000.0))


def cycle(model: CostModel, steps: int) -> CycleForecast:
    at = Setting(num_steps=steps, num_draft_tokens=steps + 1, topk=1, batch_size=1, context_tokens=None)
    return cycle_at(fitted_of(model.groups[0], model.seed), at)


def alone(model: CostModel, steps: int) -> float:
    """Return the cycle by the terms alone."""
    made = fitted_of(model.groups[0], model.seed)
    at = Setting(num_steps=steps, num_draft_tokens=steps + 1, topk=1, batch_size=1, context_tokens=None)
    return cycle_at(replace(made, plain_residuals=None, speculative_residuals=None), at).value or 0.0


def test_a_measured_configuration_is_predicted_near_its_measurement() -> None:
    model = fit_cost_model(sweep(*BENT))
    off, drawn = abs(alone(model, 5) - 18_000), abs((cycle(model, 5).value or 0.0) - 18_000)
    assert drawn < 0.7 * off


def test_its_interval_holds_the_measurement() -> None:
    found = cycle(fit_cost_model(sweep(*BENT)), 5)
    assert found.lo is not None and found.hi is not None
    assert found.lo <= 18_000 <= found.hi


def test_a_fit_that_meets_every_cell_is_left_as_it_is() -> None:
    straight = fit_cost_model(sweep((0, 10_000.0), (1, 12_000.0), (3, 14_000.0), (5, 16_000.0)))
    assert cycle(straight, 4).value == pytest.approx(alone(straight, 4), rel=1e-4)
    assert cycle(straight, 8).value == pytest.approx(alone(straight, 8), rel=1e-4)


def test_a_setting_far_from_all_is_left_as_it_is() -> None:
    model = fit_cost_model(sweep(*BENT))
    fitted = fitted_of(model.groups[0], model.seed)
    at = Setting(num_steps=3, num_draft_tokens=4, topk=1, batch_size=1, context_tokens=None, overlap=False)
    far = pull_at(fitted, at)
    assert far.shift == 0.0 and far.known == 0.0 and not np.any(far.moves)


def test_the_model_file_holds_all_that_the_drawing_needs() -> None:
    model = fit_cost_model(sweep(*BENT))
    stored = next(cell for cell in model.groups[0].cells if cell.num_steps == 5)
    assert cycle(model, 5).value == pytest.approx(stored.fitted_us, rel=1e-4)


def test_a_held_out_configuration_does_not_predict_itself() -> None:
    held = fit_cost_model(sweep(*BENT)).groups[0].holdout
    assert held.p90 is not None and held.p90 > 0.03
    met = fit_cost_model(sweep(*BENT[:-1])).groups[0].holdout
    assert met.p90 is not None and met.p90 < 1e-3
