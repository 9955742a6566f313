"""The draft at another tensor-parallel size, from a calibration: times, decisions, ties."""

from __future__ import annotations

import pytest

from tests.model.made_calibration import Host, calibration, served, with_calibration
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Candidate, Forecast, Question

FAST = Host(in_use="one_shot")
SLOW = Host(weights_us=60.0)  # NCCL and a small draft


def fitted(host: Host, draft_tp: int, **changed: object) -> CostModel:
    runs = with_calibration(served(host, draft_tp, **changed), calibration(host))  # type: ignore[arg-type]
    return fit_cost_model(runs, draws=100)


def asked(model: CostModel, **changed: object) -> Forecast:
    question = {
        "accept_length": 2.5,
        "at_num_draft_tokens": 4,
        "batch_size": 1,
        "current_steps": 3,
        **changed,
    }
    return predict(model, Question(**question))  # type: ignore[arg-type]


def draft_at(forecast: Forecast, size: int, steps: int) -> Candidate:
    return next(one for one in forecast.candidates if (one.draft_tp, one.num_steps) == (size, steps))


@pytest.mark.parametrize("host", [FAST, SLOW, Host()])
@pytest.mark.parametrize(("measured", "size"), [(4, 1), (4, 2), (2, 1), (2, 4), (1, 2), (1, 4)])
@pytest.mark.parametrize("timed", [True, False])
def test_the_drafts_time_elsewhere_is_within_a_tenth(
    host: Host, measured: int, size: int, timed: bool
) -> None:
    model = fitted(host, measured, timed=timed)
    for batch in (1, 4):
        forecast = asked(model, draft_tp=(size,), batch_size=batch, steps=(0, 1, 3, 5))
        for steps in (1, 3, 5):
            before, after = draft_at(forecast, measured, steps), draft_at(forecast, size, steps)
            assert before.draft_ms and after.draft_ms and after.draft_ms.lo and after.draft_ms.hi
            assert before.draft_ms.value == pytest.approx(
                host.draft_us(measured, steps, batch) / 1000, rel=0.05
            )
            truth = host.draft_us(size, steps, batch) / 1000
            slack = 1.0 if timed else 1.05
            assert after.draft_ms.lo / slack <= truth <= after.draft_ms.hi * slack
            if timed:
                assert after.draft_ms.value == pytest.approx(truth, rel=0.1)
