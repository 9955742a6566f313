"""Fits of made runs, and what tests ask of them."""

from __future__ import annotations

from tests.model.made_runs import (
    configuration,
    inspection,
    ranks,
    run,
)
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.fit import fit_cost_model
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting
from toolkit.schema.cost import CostModel, Term
from toolkit.schema.inspection import DraftStep, Inspection

DRAWS = 40


def fit(runs: Inspection) -> CostModel:
    return fit_cost_model(runs, draws=DRAWS)


def term(model: CostModel, name: str) -> Term:
    return next(term for term in model.groups[0].terms if term.name == name)


def cycle(model: CostModel, steps: int, batch: int = 1) -> CycleForecast:
    at = Setting(num_steps=steps, num_draft_tokens=steps + 1, topk=1, batch_size=batch, context_tokens=None)
    return cycle_at(fitted_of(model.groups[0], model.seed), at)


def traced(steps: int, batch: int = 1, context: int | None = None) -> Inspection:
    """A run with draft forwards of 200, extend 300, verify 4000 + 10 a token, sample 50, host 150 us."""
    verify = 4000.0 + 10 * batch * (steps + 1)
    draft = 200.0 * (steps - 1)
    phases = {"draft": draft, "draft_extend": 300.0, "verify": verify, "sample": 50.0}
    return inspection(
        run(
            f"k{steps}b{batch}",
            configuration(
                steps,
                sum(phases.values()) + 150.0,
                batch_size=batch,
                context_tokens=context,
                ranks=ranks(**{name: us for name, us in phases.items() if us > 0}),
                draft_steps=tuple(DraftStep(forward=i + 1, median_us=200.0) for i in range(steps - 1)),
                draft_steps_source="trace",
            ),
        )
    )


def together(*inspections: Inspection) -> Inspection:
    return inspection(*(one for made in inspections for one in made.runs))
