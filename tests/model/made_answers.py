"""Answers to questions about made runs, and one candidate of them."""

from __future__ import annotations

from tests.model.made_runs import (
    founding_case,
    sweep,
)
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Candidate, Forecast, Question

FOUNDING = fit_cost_model(founding_case(), draws=100)
SWEEP = fit_cost_model(sweep((0, 10_000.0), (1, 12_000.0), (3, 14_000.0), (5, 16_000.0)), draws=100)


def at(forecast: Forecast, steps: int) -> Candidate:
    return next(candidate for candidate in forecast.candidates if candidate.num_steps == steps)


def near(model: CostModel, **asked: object) -> Forecast:
    return predict(model, Question(**asked))  # type: ignore[arg-type]
