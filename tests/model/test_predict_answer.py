"""Answers of `predict`: what is said, and what is not said."""

from __future__ import annotations

import re

import pytest

from tests.model.made_answers import FOUNDING, SWEEP, at, near
from tests.model.made_runs import (
    acceptance,
    configuration,
    inspection,
    run,
    sweep,
)
from toolkit.errors import UndeterminedError, UsageError
from toolkit.model.fit import fit_cost_model
from toolkit.report.forecast_text import forecast_text
from toolkit.schema.forecast import Scenario


def test_the_founding_rate_is_read_as_its_own_log_prints_it() -> None:
    used = near(FOUNDING, accept_rate=0.36).acceptance
    assert used.accept_length == pytest.approx(2.16)
    assert used.readings == pytest.approx({"log": 2.16, "draft": 2.8, "conditional": 1.559}, rel=1e-3)


def test_the_founding_case_is_told_to_turn_speculation_off() -> None:
    forecast = near(FOUNDING, accept_rate=0.36)
    decided = forecast.recommendation
    assert decided.action == "turn speculation off"
    assert decided.candidate is not None
    assert forecast.candidates[decided.candidate].num_steps == 0
    assert "2.16" in decided.why and "90.0" in decided.why
    five = next(even for even in forecast.break_even_accept_length if even.num_steps == 5)
    assert five.accept_length == pytest.approx(2.5, abs=0.01)


def test_step_counts_that_were_not_run_are_ranges() -> None:
    forecast = near(FOUNDING, accept_rate=0.36)
    assert [c.num_steps for c in forecast.candidates if c.determined] == [0, 5]
    assert any("not determined" in mark for mark in at(forecast, 2).extrapolated)


def test_asking_only_for_what_is_open_names_what_would_settle_it() -> None:
    with pytest.raises(UndeterminedError, match=r"draft_forward_us and verify_token_us.*run with 1 step"):
        near(FOUNDING, accept_rate=0.36, steps=(2, 3))
    assert len(near(FOUNDING, accept_rate=0.36, steps=(2, 3), anyway=True).candidates) >= 2


def test_a_single_step_count_that_was_not_run_warns_whose_acceptance_it_takes() -> None:
    two = near(FOUNDING, accept_rate=0.36, steps=(2,), anyway=True)
    assert two.acceptance.accept_length == pytest.approx(1.08)
    assert any("--at-num-draft-tokens 6" in text and "3 draft tokens" in text for text in two.warnings)
    for asked in ({"steps": (5,)}, {"steps": (2,), "at_num_draft_tokens": 6}, {}):
        said = near(FOUNDING, accept_rate=0.36, anyway=True, **asked).warnings
        assert not [text for text in said if "the only step count" in text]


def test_sentences_about_open_step_counts_give_ranges() -> None:
    loses = near(FOUNDING, accept_rate=0.36, steps=(2,), anyway=True).recommendation
    assert loses.action == "turn speculation off"
    assert re.search(r"between 3\d\.\d and 6\d\.\d against 90\.0 tok/s", loses.why)
    assert re.search(r"break-even is between 1\.\d+ and 2\.\d+ tokens", loses.why)
    assert loses.gain.lo is not None and loses.gain.hi is not None
    assert loses.gain.lo < 0.5 and loses.gain.hi > 1.3
    tie = near(FOUNDING, accept_rate=0.36, at_num_draft_tokens=6, steps=(2,), anyway=True).recommendation
    assert tie.action == "tie"
    assert re.search(r"between 6\d\.\d and 11\d\.\d tok/s: between -\d+% and \+\d+%", tie.why)
    assert "chance" not in tie.why


def test_the_table_shows_no_chance_for_a_range_and_the_json_keeps_it() -> None:
    forecast = near(FOUNDING, accept_rate=0.36)
    assert all(candidate.p_best is not None for candidate in forecast.candidates)
    shown = forecast_text(forecast).splitlines()
    (two,) = [line for line in shown if line.startswith("     2 3")]
    assert "%" not in two
    (five,) = [line for line in shown if line.startswith("     5 6")]
    assert "%" in five
    (headline,) = [line for line in shown if line.startswith("Turn speculation off")]
    assert "between" not in headline
    elsewhere = forecast_text(near(FOUNDING, accept_rate=0.36, draft_tp=(1,), verify_share=0.95))
    assert "Turn speculation off (15.8% over 5 steps)" in elsewhere
    opened = forecast_text(near(FOUNDING, accept_rate=0.36, steps=(2,), anyway=True))
    assert "Turn speculation off (between +" in opened


def test_a_high_acceptance_is_worth_speculating_for() -> None:
    forecast = near(SWEEP, accept_by_position=(0.9, 0.8, 0.7, 0.6, 0.5))
    decided = forecast.recommendation
    assert decided.action == "use"
    assert decided.candidate is not None
    assert forecast.candidates[decided.candidate].num_steps >= 3
    assert decided.gain.lo is not None and decided.gain.lo > 0.5
    assert sum(c.p_best or 0 for c in forecast.candidates) == pytest.approx(1)


def test_an_acceptance_at_break_even_is_a_tie() -> None:
    decided = near(SWEEP, accept_by_position=(0.2,), steps=(0, 1)).recommendation
    assert decided.action == "tie"


def test_the_steps_in_use_are_kept_for_a_small_gain() -> None:
    decided = near(SWEEP, accept_by_position=(0.8, 0.6, 0.45, 0.3, 0.2), current_steps=3).recommendation
    assert decided.action == "no change"


def test_tokens_per_second_are_batch_times_length_over_cycle() -> None:
    three = at(near(SWEEP, accept_by_position=(0.5, 0.25, 0.25)), 3)
    assert three.cycle_ms.value == pytest.approx(14, rel=1e-3)
    assert three.tok_s.value == pytest.approx(2.0 / 0.014, rel=1e-3)


def test_flags_to_paste_belong_to_the_engine() -> None:
    forecast = near(SWEEP, accept_by_position=(0.9, 0.8, 0.7))
    assert at(forecast, 3).reachable.flags == (
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    )
    assert "--speculative-algorithm" in at(forecast, 0).reachable.flags


def test_no_acceptance_anywhere_says_what_to_give() -> None:
    with pytest.raises(UndeterminedError, match="--accept-rate"):
        near(SWEEP)


def test_the_runs_own_real_curve_is_used_when_nothing_is_given() -> None:
    told = acceptance(1.9, accept_by_position=(0.6, 0.3), cycles=1000)
    made = run("k2", configuration(2, 13_000.0, acceptance=told), acceptance_kind="real")
    model = fit_cost_model(inspection(made, *sweep((0, 10_000.0), (4, 15_000.0)).runs), draws=50)
    forecast = near(model)
    assert forecast.acceptance.source == "measured"
    assert at(forecast, 2).accept_length == pytest.approx(1.9)
    assert "acceptance beyond 2 steps" in at(forecast, 4).extrapolated


@pytest.mark.parametrize(("kind", "says"), [(None, 1), ("real", 0), ("simulated", 0)])
def test_acceptance_of_unknown_kind_counts_as_real_and_says_so(kind: str | None, says: int) -> None:
    told = acceptance(1.9, accept_by_position=(0.6, 0.3), cycles=1000)
    made = run("k2", configuration(2, 13_000.0, acceptance=told), acceptance_kind=kind)
    group = fit_cost_model(inspection(made), draws=20).groups[0]
    assert (group.curve is None) == (kind == "simulated")
    assert sum("counts as real" in text for text in group.warnings) == says


def test_an_accept_length_of_unknown_kind_is_taken_and_says_so() -> None:
    warnings = near(FOUNDING).warnings
    assert any(
        "own accept length 1.91" in text and "nothing marks it as simulated" in text for text in warnings
    )


def test_several_groups_need_a_choice() -> None:
    two = inspection(
        run("a", configuration(0, 5000.0), tp_size=1), run("b", configuration(0, 3000.0), tp_size=2)
    )
    model = fit_cost_model(two, draws=20)
    with pytest.raises(UndeterminedError, match=r"TP1.*TP2.*--tp-size"):
        near(model, accept_length=1.5, at_num_draft_tokens=4)
    with pytest.raises(UsageError, match=r"0\.36 \(a percent\)\?"):
        near(model, accept_rate=36)  # wrong whichever group is meant


def test_a_rate_whose_convention_is_unknown_gives_both_readings() -> None:
    with pytest.raises(UndeterminedError, match=r"1\.44.*2\.08"):
        near(SWEEP, accept_rate=0.36, at_num_draft_tokens=4)
    drafts = near(SWEEP, accept_rate=0.36, at_num_draft_tokens=4, rate_kind="draft")
    assert drafts.acceptance.accept_length == pytest.approx(2.08)


@pytest.mark.parametrize(
    "asked",
    [
        {"accept_length": 0.9},
        {"accept_length": 7.0, "at_num_draft_tokens": 6},
        {"accept_length": float("nan")},
        {"accept_rate": 36.0},
        {"accept_by_position": (0.5, 0.6)},
        {"accept_by_position": (1.2,)},
        {"accept_length": 2.0, "at_num_draft_tokens": 1},
        {"accept_length": 2.0, "verify_share": 1.5},
    ],
)
def test_values_that_cannot_be_are_refused_in_a_sentence(asked: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        near(SWEEP, **asked)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [float("nan"), float("inf")])
def test_a_length_that_is_no_number_is_not_called_too_small(length: float) -> None:
    with pytest.raises(UsageError, match="is no number of tokens"):
        near(SWEEP, accept_length=length)


def test_scenarios_come_back_row_by_row() -> None:
    rows = (
        Scenario(row=2, num_steps=5, accept_length=3.0),
        Scenario(row=3, num_steps=1),
        Scenario(row=4, num_steps=5),
    )
    forecast = near(SWEEP, scenarios=rows)
    assert [c.num_steps for c in forecast.candidates] == [5, 1, 5]
    assert [c.cycle_ms.value for c in forecast.candidates] == pytest.approx([16, 12, 16], rel=1e-3)
    assert [c.tok_s.value is None for c in forecast.candidates] == [False, True, True]


def test_the_same_question_has_the_same_answer() -> None:
    assert near(SWEEP, accept_by_position=(0.7, 0.5)) == near(SWEEP, accept_by_position=(0.7, 0.5))


def test_a_candidate_is_forecast_alike_whatever_else_is_asked() -> None:
    alone = near(SWEEP, accept_by_position=(0.7, 0.5, 0.3), steps=(3,))
    among = near(SWEEP, accept_by_position=(0.7, 0.5, 0.3))
    assert at(alone, 3).cycle_ms == at(among, 3).cycle_ms


def test_only_rows_that_compete_share_the_chance_to_be_best() -> None:
    rows = tuple(
        Scenario(row=place, num_steps=steps, batch_size=batch)
        for place, (steps, batch) in enumerate([(0, 1), (3, 1), (3, 2)])
    )
    made = near(SWEEP, accept_length=2.0, at_num_draft_tokens=4, scenarios=rows, anyway=True).candidates
    assert (made[0].p_best or 0) + (made[1].p_best or 0) == pytest.approx(1)
    assert made[2].p_best == 1


def test_acceptance_by_position_echoes_its_readings() -> None:
    used = near(SWEEP, accept_by_position=(0.7, 0.5, 0.3)).acceptance
    assert used.readings["draft"] == pytest.approx(2.5)
    assert used.readings["conditional"] == pytest.approx(1 + 0.5 + 0.25 + 0.125)


def test_a_single_step_count_of_a_tree_owns_the_acceptance() -> None:
    used = near(SWEEP, accept_length=2.0, steps=(3,), topk=4).acceptance
    assert used.num_steps == 3


def test_a_batch_beside_the_only_one_measured_asks_for_runs_at_it() -> None:
    with pytest.raises(UndeterminedError, match="only batch 1 was measured; runs at batch 4"):
        near(SWEEP, accept_length=2.0, at_num_draft_tokens=4, batch_size=4)


def test_the_legend_tells_a_cycle_beyond_the_runs_from_an_acceptance_beyond_them() -> None:
    shown = forecast_text(near(SWEEP, accept_by_position=(0.5, 0.3)))
    rows = {line.split()[0].lstrip("*"): line for line in shown.splitlines() if re.match(r" +\*?\d ", line)}
    assert rows["1"].rstrip()[-1].isdigit()
    assert rows["3"].endswith(" +")
    assert rows["8"].endswith(" ^+")
    assert "^ cycle beyond" in shown and "+ accept length beyond" in shown


def test_the_sentence_says_why_the_fastest_row_is_not_the_one_named() -> None:
    flat = near(SWEEP, accept_by_position=(0.9, 0.5, 0.192, 0.1)).recommendation
    assert flat.candidate == 2
    said = "3 steps would be the fastest at 185.1 tok/s, but 2 steps are within 1 % of it and draft less"
    assert said in flat.why
    clear = near(SWEEP, accept_by_position=(0.9, 0.5, 0.26, 0.1)).recommendation
    assert clear.candidate == 3 and "would be" not in clear.why


def test_groups_are_told_apart_by_gpu_and_many_are_counted() -> None:
    runs = [run(f"r{i}", configuration(0, 5000.0), gpu=f"GPU {i}") for i in range(9)]
    model = fit_cost_model(inspection(*runs), draws=20)
    with pytest.raises(UndeterminedError, match=r"GPU 5, TP1; and 3 more\): choose with --gpu$"):
        near(model)
    group = near(model, gpu="gpu 7", accept_length=2.0, at_num_draft_tokens=2, steps=(0,))
    assert group.inputs["gpu"] == "GPU 7"


def test_readings_named_beside_the_one_taken_are_others() -> None:
    told = acceptance(1.9, rate=0.3, rate_kind="correct/proposed")
    made = run("k3", configuration(3, 14_000.0, acceptance=told))
    model = fit_cost_model(inspection(made, run("p", configuration(0, 9000.0))), draws=20)
    shown = " ".join(forecast_text(near(model, accept_rate=0.36)).split())
    assert "(correct/proposed); read otherwise: per position 1.54;" in shown


def test_plain_decoding_stands_in_the_table_also_where_it_was_not_asked_for() -> None:
    shown = forecast_text(near(SWEEP, accept_length=2.0, steps=(3,)))
    assert re.search(r"^ +0 1 +1\.00 +10\.00", shown, re.MULTILINE)
    assert "\n\n\n" not in shown
