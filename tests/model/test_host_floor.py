"""The host's floor under a speculative cycle: without a draft pass the host is spared that call."""

from __future__ import annotations

import pytest

from tests.model.made_fits import cycle
from tests.model.made_runs import configuration, inspection, run, spread
from toolkit.model.fit import fit_cost_model
from toolkit.schema.inspection import PhaseTime, RankReport, RunReport

FLOOR_US, CALL_US = 5600.0, 700.0  # of a cycle with a draft pass; of its call, beyond the graph


def host_bound(steps: int, *, stages: bool = True) -> RunReport:
    draft = 130.0 * (steps - 1)
    graphs = {"draft": draft, "verify": 3000.0, "draft_extend": 200.0}
    phases = {
        name: PhaseTime(graph_us=spread(us), stage_us=spread(us + CALL_US) if stages else None)
        for name, us in graphs.items()
        if us
    }
    cell = configuration(
        steps,
        FLOOR_US - (CALL_US if steps == 1 else 0.0),
        bound="host",
        ranks=(RankReport(tp_rank=0, gpu_busy_fraction=None, phases=phases),),
    )
    return run(f"k{steps}", cell, tp_size=4)


def test_one_step_without_a_run_of_its_own_is_spared_the_drafts_call() -> None:
    model = fit_cost_model(inspection(host_bound(2), host_bound(3), host_bound(5)))
    assert cycle(model, 4).value == pytest.approx(FLOOR_US, rel=0.01)
    assert cycle(model, 1).value == pytest.approx(FLOOR_US - CALL_US, rel=0.03)


def test_without_the_calls_time_one_step_takes_the_floor_of_the_others() -> None:
    model = fit_cost_model(inspection(*(host_bound(steps, stages=False) for steps in (2, 3, 5))))
    assert cycle(model, 1).value == pytest.approx(FLOOR_US, rel=0.01)


def test_a_run_of_one_step_and_those_of_more_share_one_floor() -> None:
    model = fit_cost_model(inspection(*(host_bound(steps) for steps in (1, 2, 3, 5))))
    assert cycle(model, 1).value == pytest.approx(FLOOR_US - CALL_US, rel=0.01)
    assert cycle(model, 5).value == pytest.approx(FLOOR_US, rel=0.01)
