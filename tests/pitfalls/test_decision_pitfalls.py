"""Ways to decide wrongly from right numbers (docs/pitfalls.md), on made data whose truth is known."""

from __future__ import annotations

import pytest

from tests.model.made_answers import at, near
from tests.model.made_fits import fit, together
from tests.model.made_runs import configuration, inspection, run, sweep
from toolkit.schema.inspection import PhaseTime, RankReport, RunReport

FALLING = (0.7, 0.5, 0.35, 0.25, 0.18)


def decoded(name: str, us: float, *, graph: bool) -> RunReport:
    time = PhaseTime(graph=graph)
    told = (RankReport(tp_rank=0, gpu_busy_fraction=None, phases={"decode": time}),)
    return run(name, configuration(0, us, ranks=told))


def test_plain_decoding_without_graphs_is_no_baseline_of_a_server_with_them() -> None:
    """Pitfall 16: 3 steps gain 63 % on an eager step of 19 ms and lose to the server's own 10 ms."""
    spec = sweep((1, 21_000.0), (2, 23_000.0), (3, 25_000.0)).runs
    asked = {"accept_by_position": (0.6, 0.35, 0.2), "steps": (0, 1, 2, 3)}
    eager, own = decoded("eager", 19_000.0, graph=False), decoded("own", 10_000.0, graph=True)
    both = near(fit(inspection(*spec, own, eager)), **asked)
    assert both.baseline.cycle_ms.value == pytest.approx(10.0, rel=2e-3)
    assert both.recommendation.action == "turn speculation off"
    alone = near(fit(inspection(*spec, eager)), **asked)
    assert alone.baseline.cycle_ms.value is None and not alone.baseline.determined
    assert alone.recommendation.relative_to != "plain decoding"
    taken = near(fit(inspection(*spec, run("eager", configuration(0, 19_000.0)))), **asked)
    assert taken.recommendation.action == "use" and (taken.recommendation.gain.value or 0.0) > 0.5


def test_plain_decoding_that_is_open_is_said_in_the_singular() -> None:
    spec = sweep((1, 21_000.0), (2, 23_000.0), (3, 25_000.0)).runs
    eager = decoded("eager", 19_000.0, graph=False)
    answer = near(fit(inspection(*spec, eager)), accept_by_position=(0.6, 0.35, 0.2), steps=(0, 1, 2, 3))
    assert "plain decoding is not determined by the fitted runs" in answer.recommendation.why


def test_what_pays_at_low_load_is_not_advised_at_high_load() -> None:
    """Pitfall 18: the same acceptance, and verified tokens that are free at batch 1 and not at batch 64."""
    low = sweep((0, 10_000.0), (1, 10_400.0), (3, 11_200.0), (5, 12_000.0))
    high = sweep((0, 14_000.0), (1, 26_000.0), (3, 44_000.0), (5, 62_000.0), batch=64)
    model = fit(together(low, high))
    few, many = (near(model, accept_by_position=FALLING, batch_size=batch) for batch in (1, 64))
    assert few.recommendation.action == "use"
    assert few.recommendation.candidate is not None
    steps = few.candidates[few.recommendation.candidate].num_steps
    assert steps >= 3
    assert many.recommendation.action == "turn speculation off"
    carried = (at(few, steps).tok_s.value or 0.0) / (at(few, 0).tok_s.value or 1.0)
    true = (at(many, steps).tok_s.value or 0.0) / (at(many, 0).tok_s.value or 1.0)
    assert carried > 1.5 and true < 0.8


def test_a_cycle_of_half_a_plain_step_lifts_no_speed_up_above_the_accept_length() -> None:
    """Pitfall 19: a cycle holds a plain step; taken as it is, the row would double what 3 steps gain."""
    wrong = sweep((0, 10_000.0), (1, 10_500.0), (3, 5_000.0), (5, 12_500.0))
    answer = near(fit(wrong), accept_by_position=FALLING, batch_size=1)
    none = at(answer, 0).tok_s.value or 1.0
    for candidate in answer.candidates:
        length = candidate.accept_length or 1.0
        assert 1.0 <= length <= candidate.num_draft_tokens
        assert (candidate.tok_s.value or 0.0) / none <= length * 1.001
    three = at(answer, 3)
    naive = (three.accept_length or 0.0) * 10_000.0 / 5_000.0
    assert naive > 1.5 * (three.tok_s.value or 0.0) / none
