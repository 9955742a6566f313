"""The draft at another tensor-parallel size, from a calibration: times, decisions, ties."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log

import pytest

from tests.model.made_calibration import Host, calibration, served, with_calibration, with_totals
from tests.model.made_fits import together
from tests.model.made_runs import configuration, inspection, ranks, run, sweep
from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.codec import cost_model_from_json, to_json
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


def test_runs_of_two_draft_tps_have_draft_terms_of_their_own() -> None:
    both = together(served(FAST, 4), served(FAST, 1, steps=(1, 3)))
    model = fit_cost_model(both, draws=100)
    group = model.groups[0]
    assert group.draft_tp == 4
    assert {"draft_forward_us", "draft_forward_tp1_us", "draft_extend_tp1_us"} <= set(group.columns)
    assert not any("draft TP" in text for text in group.warnings)
    forecast = asked(model, draft_tp=(1,), steps=(3,))
    for size in (1, 4):
        found = draft_at(forecast, size, 3)
        assert found.draft_ms and found.determined
        assert found.draft_ms.value == pytest.approx(FAST.draft_us(size, 3, 1) / 1000, rel=0.03)
    assert forecast.draft_tp.sizes[0].draft_tp == 1
    assert forecast.draft_tp.recommendation == 4


@pytest.mark.parametrize(("measured", "size"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("host", [FAST, SLOW])
def test_a_check_on_runs_of_another_draft_tp_uses_the_what_if(host: Host, measured: int, size: int) -> None:
    model = fitted(host, measured)
    report = check_model(model, served(host, size), "m.json")
    speculative = [cell for cell in report.configurations if cell.num_steps > 0]
    assert len(speculative) == 6
    for cell in speculative:
        assert cell.draft_tp == size and cell.inside
        assert cell.draft and abs(cell.draft.error) < 0.1 and cell.draft.inside
    alone = check_model(fit_cost_model(served(host, measured), draws=50), served(host, size), "m.json")
    assert not [cell for cell in alone.configurations if cell.num_steps > 0]
    assert any(f"its draft at TP{size}, which was not fitted" in text for text in alone.warnings)


def test_the_size_that_surely_gains_is_recommended_where_a_flag_sets_it() -> None:
    answer = asked(fitted(SLOW, 4)).draft_tp
    assert (answer.recommendation, answer.best, answer.tie) == (1, 1, False)
    assert answer.sizes[0].reachable.flags == "--steps 3 --draft-tp 1"
    assert answer.break_even_allreduce and answer.break_even_allreduce.lo and answer.break_even_allreduce.hi
    computes = [SLOW.draft_us(size, 3, 1) - wires(SLOW, size) for size in (1, 4)]
    assert answer.break_even_allreduce_us == pytest.approx((computes[0] - computes[1]) / 12, rel=0.1)
    assert answer.break_even_allreduce.lo < SLOW.latency_us("nccl", 4, 8192)


def wires(host: Host, size: int) -> float:
    return 2 * host.wire_us(host.in_use, size, 1) + host.wire_us(host.in_use, size, 4)


def test_an_engine_that_cannot_be_set_to_it_leaves_the_gain_on_the_table() -> None:
    answer = asked(fitted(SLOW, 4, engine="sglang")).draft_tp
    assert (answer.recommendation, answer.best) == (4, 1)
    assert "left on the table" in answer.why and "SGLang has no flag" in answer.why
    assert answer.sizes[0].gain.lo and answer.sizes[0].gain.lo > 0


def test_the_measured_size_stays_where_the_others_are_slower() -> None:
    answer = asked(fitted(FAST, 4)).draft_tp
    assert (answer.recommendation, answer.tie) == (4, False)
    assert all(size.gain.hi is not None and size.gain.hi < 0 for size in answer.sizes)


@pytest.mark.parametrize(("measured", "other"), [(1, 2), (2, 1)])
def test_sizes_that_take_as_long_tie(measured: int, other: int) -> None:
    even = Host(weights_us=96.0)
    assert even.draft_us(1, 3, 1) == pytest.approx(even.draft_us(2, 3, 1), rel=0.01)
    answer = asked(fitted(even, measured), draft_tp=(other,)).draft_tp
    assert (answer.recommendation, answer.tie) == (measured, True)
    assert "tie" in answer.why


def test_what_is_supposed_of_all_reduces_holds_at_both_sizes() -> None:
    model = fitted(Host(), 4)
    forecast = asked(model, draft_tp=(1, 2), steps=(3,), allreduce_us=100.0)
    for size in (1, 4):
        found = draft_at(forecast, size, 3).draft_ms
        compute = Host().draft_us(size, 3, 1) - wires(Host(), size)
        truth = compute + (0.0 if size == 1 else 12 * 100.0)
        assert found and found.value == pytest.approx(truth / 1000, rel=0.05)
    assert forecast.draft_tp.recommendation == 1
    halved = draft_at(asked(model, draft_tp=(2,), steps=(3,), allreduce_scale=0.5), 2, 3).draft_ms
    plain = draft_at(asked(model, draft_tp=(2,), steps=(3,)), 2, 3).draft_ms
    assert halved and plain and halved.value and plain.value and halved.value < plain.value - 0.05


def test_where_no_collective_tells_the_algorithm_the_forecast_holds_all_and_says_so() -> None:
    known, unknown = (asked(fitted(Host(), 1, timed=timed), draft_tp=(4,)) for timed in (True, False))
    widths = []
    for forecast in (known, unknown):
        found = forecast.draft_tp.sizes[0].draft_ms
        assert found.lo and found.hi
        widths.append(found.hi / found.lo)
    assert widths[1] > 1.2 * widths[0]
    assert "any of nccl, one_shot" in unknown.draft_tp.why
    assert "any of" not in known.draft_tp.why


def test_a_calibration_of_another_gpu_is_not_used_and_said_so() -> None:
    runs = with_calibration(served(FAST, 4), calibration(FAST, gpu="another"))
    model = fit_cost_model(runs, draws=50)
    assert model.groups[0].calibration is None
    assert any("calib is of another and not used" in text for text in model.groups[0].warnings)
    forecast = asked(model, draft_tp=(1,), steps=(3,))
    assert not draft_at(forecast, 1, 3).determined
    assert forecast.draft_tp.sizes == ()


def test_a_calibration_of_a_model_of_other_sizes_says_so_and_widens() -> None:
    runs = served(FAST, 4)
    own = replace(runs, runs=tuple(replace(one, model_sizes={"layers": 80}) for one in runs.runs))
    wide = asked(fit_cost_model(with_calibration(own, calibration(FAST)), draws=100)).draft_tp
    narrow = asked(fitted(FAST, 4)).draft_tp
    assert "layers 32 was measured, 80 is served" in wide.why
    for one, other in zip(wide.sizes, narrow.sizes, strict=True):
        assert one.draft_ms.hi and one.draft_ms.lo and other.draft_ms.hi and other.draft_ms.lo
        assert log(one.draft_ms.hi / one.draft_ms.lo) > 2 * log(other.draft_ms.hi / other.draft_ms.lo)


def test_a_model_file_keeps_its_calibration_and_an_older_one_has_none() -> None:
    model = fitted(FAST, 4)
    text = to_json(model).encode()
    assert cost_model_from_json(text, "m.json") == model
    tree = json.loads(text)
    for group in tree["groups"]:
        del group["calibration"]
        for cell in group["cells"]:
            del cell["other_draft_tp"]
        for cost in group["collectives"]:
            del cost["draft_tp"], cost["algorithm"]
    older = cost_model_from_json(json.dumps(tree).encode(), "m.json")
    assert older.groups[0].calibration is None
    assert draft_at(asked(older, draft_tp=(1,), steps=(3,)), 1, 3).draft_ms is None


def test_gaps_around_collectives_go_with_them() -> None:
    """Kernels of a trace are shorter than what a collective adds to a graph: the rest is in compute."""
    gap_us = 4.0
    host = replace(SLOW, algorithms={"nccl": 12.0 + gap_us})
    runs = served(host, 2)
    shorter = tuple(
        replace(
            one,
            configurations=tuple(
                replace(
                    cell,
                    collectives=tuple(
                        replace(report, wire_us=(report.wire_us or 0.0) - gap_us)
                        for report in cell.collectives
                    ),
                )
                for cell in one.configurations
            ),
        )
        for one in runs.runs
    )
    made = with_calibration(replace(runs, runs=shorter), calibration(host))
    found = draft_at(asked(fit_cost_model(made, draws=100), draft_tp=(1,), steps=(3,)), 1, 3).draft_ms
    assert found and found.value == pytest.approx(host.draft_us(1, 3, 1) / 1000, rel=0.04)


def test_the_only_run_of_a_draft_tp_is_not_predicted_without_it() -> None:
    model = fit_cost_model(together(served(FAST, 4), served(FAST, 1, steps=(1,), batches=(1,))), draws=50)
    assert model.groups[0].holdout.mape is not None and model.groups[0].holdout.mape < 0.02


@pytest.mark.parametrize(("measured", "size"), [(4, 1), (1, 4)])
def test_forwards_timed_with_their_collectives_need_no_latencies(measured: int, size: int) -> None:
    made = replace(with_totals(SLOW, calibration(SLOW)), collectives=())
    model = fit_cost_model(with_calibration(served(SLOW, measured), made), draws=100)
    found = draft_at(asked(model, draft_tp=(size,), steps=(3,)), size, 3).draft_ms
    assert found and found.value == pytest.approx(SLOW.draft_us(size, 3, 1) / 1000, rel=0.05)


def test_a_size_that_was_not_run_is_known_no_better_than_the_one_that_was() -> None:
    uneven = [
        run(
            f"k{steps}-{share}",
            configuration(
                steps,
                share * (6000.0 + 200 * steps),
                ranks=ranks(draft=190.0 * (steps - 1), draft_extend=300.0, verify=share * 5000.0),
            ),
            tp_size=4,
            draft_tp=4,
        )
        for steps in (2, 3, 5)
        for share in (0.85, 1.0, 1.15)
    ]
    forecast = asked(fit_cost_model(inspection(*uneven), draws=100), draft_tp=(8,), steps=(2, 3, 5))
    for steps in (2, 3, 5):
        before, after = draft_at(forecast, 4, steps).cycle_ms, draft_at(forecast, 8, steps).cycle_ms
        assert before.lo and before.hi and after.lo and after.hi
        assert after.hi / after.lo >= before.hi / before.lo


def test_a_draft_that_may_be_all_of_the_cycle_has_no_most_gain() -> None:
    model = fit_cost_model(sweep((1, 6960.0), (3, 8070.0), (5, 9180.0)), draws=100)
    answer = asked(model).draft_tp
    assert "from 0% to 100%" in answer.why
    assert answer.most_gain is None
