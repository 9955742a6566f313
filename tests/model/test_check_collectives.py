"""A model against runs whose servers reduce in another way than those it was fitted to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.made_calibration import Host, served
from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model

FAST = Host(in_use="one_shot")
SLOW = replace(FAST, in_use="nccl")


def test_a_run_with_other_all_reduces_is_forecast_with_the_times_that_it_measured() -> None:
    model = fit_cost_model(served(FAST, 4), draws=100)
    report = check_model(model, served(SLOW, 4), "m.json")
    assert report.mape == pytest.approx(0.0, abs=0.02)
    marks = {mark for cell in report.configurations for mark in cell.extrapolated if "collectives" in mark}
    assert len(marks) >= 1 and all("times the fitted ones" in mark for mark in marks)


def test_collectives_that_take_about_as_long_as_the_fitted_ones_are_the_models_own() -> None:
    model = fit_cost_model(served(FAST, 4), draws=100)
    slower = replace(FAST, algorithms={**FAST.algorithms, "one_shot": 1.2 * FAST.algorithms["one_shot"]})
    for cell in check_model(model, served(slower, 4), "m.json").configurations:
        assert not any("collectives" in mark for mark in cell.extrapolated)
