"""What-ifs of a forecast: verify share, draft TP, collectives, and questions far from what was measured."""

from __future__ import annotations

import re

import pytest

from tests.model.made_answers import FOUNDING, at, near
from tests.model.made_runs import (
    configuration,
    inspection,
    ranks,
    run,
    run_on_two_gpus,
    sweep,
    timed,
)
from toolkit.errors import BadInputError
from toolkit.model.fit import fit_cost_model
from toolkit.report.forecast_text import forecast_text
from toolkit.schema.cost import CostModel


def hosted(cycle_us: float, floor_us: float) -> CostModel:
    """Cycles of 1 step at the host's floor, and of 5 steps as long as the GPU takes."""
    phases = ranks(draft=800.0, draft_extend=200.0, verify=cycle_us - 1000.0)
    short = ranks(draft_extend=200.0, verify=cycle_us - 1000.0)
    return fit_cost_model(
        inspection(
            run("k5", configuration(5, cycle_us, bound="gpu", ranks=phases)),
            run("k1", configuration(1, floor_us, bound="host", ranks=short)),
            run("k0", configuration(0, 3000.0)),
        ),
        draws=50,
    )


def test_a_free_draft_gains_nothing_only_where_the_host_surely_sets_the_cycle() -> None:
    model = hosted(6000.0, 6000.0)
    sure = near(model, accept_length=1.5, at_num_draft_tokens=2, steps=(1,), current_steps=1).draft_tp
    assert sure.most_gain == 0
    assert "a faster draft gains nothing while the host sets the cycle" in sure.why
    close = near(model, accept_length=3.0, at_num_draft_tokens=6, steps=(5,), current_steps=5).draft_tp
    assert close.most_gain == pytest.approx(1 / 0.98 - 1, abs=0.005)
    assert "even a free draft gains at most about 2%" in close.why


def test_a_verify_share_bounds_what_a_free_draft_gains() -> None:
    answer = near(FOUNDING, accept_rate=0.36, verify_share=0.95).draft_tp
    assert answer.most_gain == pytest.approx(0.05 / 0.95, rel=1e-3)
    assert "at most about 5%" in answer.why
    assert answer.recommendation == 8
    assert "no flag" in answer.why


def test_faster_collectives_shorten_plain_and_speculative_cycles() -> None:
    made = run_on_two_gpus()
    model = fit_cost_model(inspection(made, run("p", configuration(0, 3000.0), tp_size=2)), draws=50)
    plain = near(model, accept_length=2.0)
    free = near(model, accept_length=2.0, allreduce_scale=0.0)
    ten = near(model, accept_length=2.0, allreduce_us=20.0)
    assert at(plain, 3).cycle_ms.value == pytest.approx(6.0, rel=1e-3)
    assert at(free, 3).cycle_ms.value == pytest.approx(6.0 - 0.71, rel=1e-3)
    assert at(free, 0).cycle_ms.value == pytest.approx(3.0 - 0.65, rel=1e-3)
    assert at(ten, 3).cycle_ms.value == pytest.approx(6.0 + 0.71, rel=1e-3)
    assert plain.draft_tp.break_even_allreduce_us == pytest.approx((440 + 250) / 6, rel=1e-2)


def test_collectives_that_spans_timed_are_changed_with_a_note() -> None:
    phases = ranks(verify=4000.0, draft=500.0, draft_extend=250.0)
    of_spans = configuration(3, 6000.0, ranks=phases, collectives=(timed("verify", 65, 10.0),))
    made = run("spans", of_spans, tp_size=2)
    model = fit_cost_model(inspection(made, run("p", configuration(0, 3000.0), tp_size=2)), draws=50)
    free = near(model, accept_length=2.0, allreduce_scale=0.0)
    assert at(free, 3).cycle_ms.value == pytest.approx(6.0 - 0.65, rel=1e-3)
    assert any("do not tell all-gathers from them" in text for text in free.warnings)


def test_another_draft_tp_is_a_range_that_no_flag_reaches() -> None:
    forecast = near(FOUNDING, accept_rate=0.36, verify_share=0.95, draft_tp=(1, 8), steps=(0, 5))
    other = [candidate for candidate in forecast.candidates if candidate.draft_tp == 1]
    assert [candidate.num_steps for candidate in other] == [5]
    assert not other[0].determined
    assert other[0].reachable.how == "none"


def test_a_verify_share_leaves_the_largest_gain_that_the_facts_allow() -> None:
    """Draft is at most cycle less plain step, as verify and host hold one: 27.8 / 11.11 - 1 below 40 %."""
    for share, most in [(0.02, 1.502), (0.2, 1.502), (0.3, 1.502), (0.5, 1.0), (0.8, 0.25)]:
        answer = near(FOUNDING, accept_rate=0.36, verify_share=share).draft_tp
        assert answer.most_gain == pytest.approx(most, abs=0.01), share
    whole = near(FOUNDING, accept_rate=0.36, verify_share=1.0).draft_tp
    assert "a faster draft gains nothing, whatever" in whole.why and "host" not in whole.why


def traced_plain() -> CostModel:
    """A cycle of 20 ms and a plain step whose 8 ms on the GPU were traced: verify is 40 % of it at least."""
    return fit_cost_model(
        inspection(
            run("k5", configuration(5, 20_000.0)),
            run("k0", configuration(0, 10_000.0, ranks=ranks(decode=8_000.0))),
        ),
        draws=30,
    )


def test_a_verify_share_that_the_facts_rule_out_is_refused_in_a_sentence() -> None:
    asked = {"accept_length": 2.0, "at_num_draft_tokens": 6}
    with pytest.raises(BadInputError, match=r"verify 40% to 100% of the cycle of 5 steps") as caught:
        near(traced_plain(), verify_share=0.2, **asked)
    assert "\n" not in str(caught.value)
    assert near(traced_plain(), verify_share=0.41, **asked).draft_tp.most_gain == pytest.approx(
        1.44, abs=0.02
    )


def test_a_verify_share_far_from_the_one_measured_is_refused() -> None:
    model = hosted(6000.0, 5900.0)
    asked = {"accept_length": 2.0, "at_num_draft_tokens": 6}
    with pytest.raises(BadInputError, match="contradicts"):
        near(model, verify_share=0.2, **asked)
    assert any("left aside" in text for text in near(model, verify_share=0.85, **asked).warnings)


def test_the_end_of_a_free_drafts_gain_is_named_where_the_host_sets_it() -> None:
    model = hosted(6000.0, 5700.0)
    close = near(model, accept_length=3.0, at_num_draft_tokens=6, steps=(5,), current_steps=5).draft_tp
    assert "as the host's floor of 5.7 ms then sets the cycle" in close.why


def contexts() -> CostModel:
    """Cycles of a GPU-bound server at contexts 300 and 3000, plain and with 1 and 3 steps."""
    return fit_cost_model(
        inspection(
            *(
                run(f"k{k}c{c}", configuration(k, 5000.0 + 1000 * k + c / 2, context_tokens=c))
                for k in (0, 1, 3)
                for c in (300, 3000)
            )
        ),
        draws=50,
    )


def test_far_beyond_the_longest_context_or_largest_batch_nothing_is_decided() -> None:
    asked = {"accept_by_position": (0.9, 0.8, 0.7)}
    assert near(contexts(), **asked, context_tokens=12_000).recommendation.action == "use"
    far = near(contexts(), **asked, context_tokens=12_001)
    assert far.recommendation.action == "cannot tell"
    assert far.recommendation.candidate is None
    assert "more than 4 times the longest that was run, 3000" in far.recommendation.why
    assert "host" not in far.draft_tp.why
    insisted = near(contexts(), **asked, context_tokens=12_001, anyway=True)
    assert insisted.recommendation.action != "cannot tell"
    batches = inspection(*sweep((0, 9e3), (2, 11e3)).runs, *sweep((0, 9.5e3), (2, 12e3), batch=4).runs)
    model = fit_cost_model(batches, draws=50)
    assert "largest that was run, 4" in near(model, **asked, batch_size=17).recommendation.why


def test_a_context_that_was_not_said_is_said_aloud_where_runs_differ_in_it() -> None:
    asked = {"accept_by_position": (0.9, 0.8)}
    assert any("--context-tokens changes it" in text for text in near(contexts(), **asked).warnings)
    told = near(contexts(), **asked, context_tokens=300).warnings
    assert not [text for text in told if "--context-tokens" in text]


def test_break_even_of_another_draft_tp_is_its_own() -> None:
    forecast = near(FOUNDING, accept_rate=0.36, verify_share=0.5, draft_tp=(1,), steps=(0, 5))
    own, other = forecast.break_even_accept_length
    assert (own.draft_tp, other.draft_tp) == (8, 1)
    assert own.accept_length == pytest.approx(2.5, abs=0.01)
    assert other.accept_length is None and other.hi is not None and other.hi > 3
    (row,) = [line for line in forecast_text(forecast).splitlines() if re.match(r" +5 6 +1 ", line)]
    assert "2.50" not in row


def test_a_larger_batch_is_never_cheaper_than_a_smaller_one_that_was_measured() -> None:
    made = inspection(
        *sweep((0, 5000.0), (1, 6000.0), (5, 8000.0)).runs,
        *sweep((0, 5600.0), (1, 6300.0), (5, 8900.0), batch=4).runs,
        *sweep((0, 5100.0), (1, 6900.0), (5, 8600.0), batch=8).runs,
    )
    model = fit_cost_model(made, draws=50)
    asked = {"accept_by_position": (0.6, 0.4), "anyway": True}
    small = [near(model, **asked, batch_size=batch) for batch in (1, 4, 8)]
    large = near(model, **asked, batch_size=64)
    for candidate in large.candidates:
        for other in small:
            least = at(other, candidate.num_steps).cycle_ms.lo
            assert candidate.cycle_ms.lo is not None and least is not None
            assert candidate.cycle_ms.lo >= least


def test_a_tree_is_never_cheaper_than_the_chain_of_the_same_steps_and_tokens() -> None:
    runs = (*sweep((0, 5000.0), (1, 6000.0), (3, 9000.0), (5, 8000.0)).runs,)
    more = sweep((0, 5100.0), (1, 6100.0), (3, 9300.0), (5, 8200.0), batch=4).runs
    model = fit_cost_model(inspection(*runs, *more), draws=50)
    chain = near(model, accept_length=2.0, at_num_draft_tokens=4)
    tree = near(model, accept_length=2.0, at_num_draft_tokens=4, topk=4)
    for one, other in zip(tree.candidates, chain.candidates, strict=True):
        assert one.num_draft_tokens == other.num_draft_tokens
        assert (one.cycle_ms.value or 0) >= (other.cycle_ms.value or 0)
        assert (one.cycle_ms.lo or 0) >= (other.cycle_ms.lo or 0)
