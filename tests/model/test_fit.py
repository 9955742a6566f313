"""The fit against runs of known cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.made_fits import cycle, fit, term, together, traced
from tests.model.made_runs import (
    acceptance,
    allreduce,
    configuration,
    founding_case,
    inspection,
    ranks,
    run,
    sweep,
    timed,
)
from toolkit.errors import UndeterminedError
from toolkit.model.after_run import one_step, unseen
from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model
from toolkit.model.fit_report import fit_report
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting
from toolkit.report.fit_text import fit_text
from toolkit.schema.codec import to_json
from toolkit.schema.cost import CostModel
from toolkit.schema.inspection import Inspection


def test_log_lines_of_a_run_whose_server_ended_give_no_cycle() -> None:
    why = "process 7 of the server ended while it was profiled"
    log = configuration(5, 30_000.0, cycle_source="log", sources=("log",))
    kept = sweep((0, 10_000.0), (3, 14_000.0))
    ended = run("ended", log, ended_early=why)
    model = fit(inspection(*kept.runs, ended, run("interrupted", log, ended_early="interrupted")))
    assert {cell.run for cell in model.groups[0].cells} == {"k0b1", "k3b1", "interrupted"}
    assert any(
        f"ended: 5 steps at batch 1 left out of the fit: its run ended early ({why})" in text
        for text in model.warnings
    )
    spans = run("ended", configuration(5, 16_000.0), ended_early=why)
    assert len(fit(inspection(*kept.runs, spans)).groups[0].cells) == 3


def test_coefficients_of_a_made_server_are_recovered() -> None:
    model = fit(together(traced(2), traced(5), traced(3, batch=4), traced(5, batch=4)))
    wanted = {
        "draft_forward_us": 200,
        "draft_extend_us": 300,
        "verify_us": 4000,
        "verify_token_us": 10,
        "sample_us": 50,
        "host_us": 150,
    }
    found = {name: model.groups[0].solution[model.groups[0].columns.index(name)] for name in wanted}
    assert found == pytest.approx(wanted, rel=1e-3)


def test_a_straight_sweep_predicts_the_steps_between_and_beyond() -> None:
    model = fit(sweep((1, 10_000.0), (5, 14_000.0)))
    assert [cycle(model, steps).value for steps in (3, 7)] == pytest.approx([12_000, 16_000], rel=1e-3)
    assert cycle(model, 3).determined
    assert cycle(model, 3).extrapolated == ()
    assert cycle(model, 7).extrapolated


def test_a_sweep_at_one_batch_cannot_tell_draft_from_verify() -> None:
    model = fit(sweep((1, 10_000.0), (5, 14_000.0)))
    assert ("draft_forward_us", "verify_token_us") in model.groups[0].identifiability.confounded
    assert not term(model, "draft_forward_us").identified
    assert term(model, "draft_forward_us").value is None
    assert term(model, "step_us at batch 1").value == pytest.approx(1000, rel=1e-3)


def test_one_step_count_leaves_a_range_between_plain_decoding_and_itself() -> None:
    model = fit(founding_case())
    three = cycle(model, 3)
    assert not three.determined
    lowest, highest = 11_111 + (27_800 - 11_111) * 3 / 5, 27_800.0
    assert three.lo is not None and three.hi is not None
    assert 0.93 * lowest < three.lo < lowest
    assert highest < three.hi < 1.07 * highest
    assert cycle(model, 5).determined and cycle(model, 0).determined


def test_the_next_run_of_one_step_count_is_a_short_chain() -> None:
    runs = fit(founding_case()).groups[0].next_runs
    assert runs[0].num_steps in (1, 2)


def test_a_next_run_promises_a_sum_where_it_leaves_its_terms_open() -> None:
    why = fit(founding_case()).groups[0].next_runs[0].why
    assert why.startswith("tells what one more step costs, not how draft_forward_us and verify_token_us")
    plain = fit(sweep((5, 14_000.0))).groups[0].next_runs[0]
    assert plain.num_steps == 0 and plain.why.startswith("determines decode_us")


def test_a_run_at_a_second_batch_tells_a_draft_forward_from_a_verified_token() -> None:
    left = unseen(fitted_of(fit(sweep((1, 10_000.0), (5, 14_000.0))).groups[0], 0))
    same, other = (
        Setting(num_steps=3, num_draft_tokens=4, topk=1, batch_size=batch, context_tokens=None)
        for batch in (1, 8)
    )
    assert left.holds_term("draft_forward_us") and left.after(same).holds_term("draft_forward_us")
    assert not left.after(other).holds_term("draft_forward_us")
    assert not left.holds(one_step(left.columns, same)) and left.holds(one_step(left.columns, other))


def test_a_fact_that_the_data_contradicts_is_left_out_alone() -> None:
    """Verify takes less than a plain step at batch 1, where both were timed; at batch 8 nothing says so."""

    def lowest(verify_us: float) -> float:
        made = inspection(
            run("b1", configuration(0, 10_100.0, ranks=ranks(decode=10_000.0))),
            run("b8", configuration(0, 10_100.0, batch_size=8, ranks=ranks(decode=10_000.0))),
            run("short", configuration(1, None, ranks=ranks(verify=verify_us))),
            run("long", configuration(5, 27_000.0, batch_size=8)),
        )
        return cycle(fit(made), 1, batch=8).lo or 0.0

    assert lowest(10_500.0) > 9_500
    assert lowest(8_000.0) > 9_500


def test_terms_left_open_are_not_those_that_are_near_zero() -> None:
    told = fit(sweep((1, 10_000.0), (5, 14_000.0)))
    assert term(told, "draft_forward_us").left_open
    flat = inspection(
        *(
            run(f"b{b}r{i}", configuration(0, us, batch_size=b))
            for b in (1, 8)
            for i, us in enumerate((5000.0, 5200.0))
        )
    )
    near = term(fit(flat), "decode_sequence_us")
    assert near.value is None and not near.identified and not near.left_open
    assert "not told from 0" in near.source


def test_settings_that_no_term_tells_apart_are_named_once() -> None:
    def made(name: str, kernel: str, version: str) -> Inspection:
        reduced = replace(allreduce("verify", 65, 5.0), algorithm=kernel)
        one = configuration(3, 6000.0, collectives=(reduced,))
        return inspection(run(name, one, tp_size=2, engine_version=version))

    mixed = fit(together(made("a", "nccl_ring_ll", "0.5.9"), made("b", "one_shot_push", "0.5.9")))
    (text,) = [text for text in mixed.groups[0].warnings if "fitted together" in text]
    assert "nccl_ring_ll in a, one_shot_push in b" in text
    assert "version" not in text
    alike = fit(together(made("a", "one_shot_push", "0.5.9"), made("b", "one_shot_push", "0.5.9")))
    assert not [text for text in alike.groups[0].warnings if "fitted together" in text]
    versions = fit(together(made("a", "one_shot_push", "0.5.9"), made("b", "one_shot_push", "0.5.15")))
    assert any("engine versions: 0.5.15 in b, 0.5.9 in a" in text for text in versions.groups[0].warnings)


def test_servers_whose_collectives_take_unlike_times_are_named_though_no_kernel_is_known() -> None:
    def made(name: str, wire_us: float) -> Inspection:
        return inspection(run(name, configuration(3, 6000.0, collectives=(timed("verify", 65, wire_us),))))

    (text,) = [
        one for one in fit(together(made("a", 2.0), made("b", 12.0))).groups[0].warnings if "apart" in one
    ]
    assert "time of a collective: 2.0 us in a, 12.0 us in b" in text
    near = fit(together(made("a", 2.0), made("b", 2.6)))
    assert not [one for one in near.groups[0].warnings if "apart" in one]


def test_coverage_is_of_intervals_that_the_other_configurations_widened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of ten settings is far off: it widens the intervals of the others and not its own."""
    made = inspection(
        *(
            run(f"b{batch}", configuration(0, 5000.0 + 2 * batch + 1500.0 * (batch == 32), batch_size=batch))
            for batch in (2**power for power in range(10))
        )
    )
    group = fit(made).groups[0]
    monkeypatch.setattr("toolkit.model.holdout._MOST_STRETCH", 1.0)
    narrow = fit(made).groups[0]
    assert group.noise.plain_scale > 1 == narrow.noise.plain_scale
    assert group.holdout.covered90 is not None and narrow.holdout.covered90 is not None
    assert narrow.holdout.covered90 <= group.holdout.covered90 < 1
    assert (group.holdout.median_width or 0) > 1.2 * (narrow.holdout.median_width or 0)


def test_runs_of_different_parallel_sizes_are_fitted_apart() -> None:
    two = inspection(
        run("a", configuration(0, 5000.0), tp_size=1), run("b", configuration(0, 3000.0), tp_size=2)
    )
    assert [group.tp_size for group in fit(two).groups] == [1, 2]


def test_replicates_set_the_spread_between_runs() -> None:
    alike = fit(inspection(*(run(f"r{i}", configuration(0, 10_000.0)) for i in range(6))))
    apart = fit(
        inspection(*(run(f"r{i}", configuration(0, us)) for i, us in enumerate((9000.0, 10_000.0, 11_000.0))))
    )
    assert alike.groups[0].noise.run_spread < 0.02 < apart.groups[0].noise.run_spread
    assert alike.groups[0].noise.replicate_dof == 5


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (configuration(3, None), "no cycle time"),
        (configuration(3, 9000.0, acceptance=acceptance(4.5)), "outside 1 to 4"),
        (configuration(3, 9000.0, batch_size=None), "batch size"),
        (configuration(3, 9000.0, topk=2, num_draft_tokens=None), "draft tree"),
        (configuration(3, float("nan")), "is not a time"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_a_sentence(made: object, why: str) -> None:
    model = fit(inspection(run("good", configuration(0, 5000.0)), run("bad", made)))  # type: ignore[arg-type]
    assert len(model.groups[0].cells) == 1
    assert any("bad" in text and why in text for text in model.warnings)


def test_a_cycle_shorter_than_a_plain_step_is_left_out() -> None:
    model = fit(sweep((0, 10_000.0), (3, 5000.0), (5, 15_000.0)))
    assert sorted(cell.num_steps for cell in model.groups[0].cells) == [0, 5]
    assert any("shorter than a plain step" in text for text in model.warnings)


def test_runs_without_any_time_determine_nothing() -> None:
    with pytest.raises(UndeterminedError, match="cycle time"):
        fit(inspection(run("bad", configuration(3, None))))


def test_holdout_of_a_straight_sweep_is_exact_and_so_is_its_line() -> None:
    held = fit(sweep((1, 10_000.0), (3, 12_000.0), (5, 14_000.0), (7, 16_000.0))).groups[0].holdout
    assert held.cells == 4
    assert held.mape == pytest.approx(0, abs=1e-3)
    assert held.null_mape == pytest.approx(0, abs=1e-3)
    assert held.covered90 == 1


def test_holdout_of_two_settings_says_why_there_is_none() -> None:
    held = fit(sweep((0, 5000.0), (3, 9000.0))).groups[0].holdout
    assert held.mape is None and held.note


def test_the_same_runs_give_the_same_model_to_the_byte() -> None:
    made = together(traced(2), traced(5), traced(3, batch=4))
    assert to_json(fit(made)) == to_json(fit(made))


def test_batch_terms_need_two_batches() -> None:
    assert "decode_sequence_us" not in fit(sweep((0, 5000.0))).groups[0].columns
    both = inspection(run("b1", configuration(0, 5000.0)), run("b8", configuration(0, 5700.0, batch_size=8)))
    assert cycle(fit(both), 0, batch=4).value == pytest.approx(5300, rel=1e-3)


def test_another_batch_than_the_only_one_measured_is_not_determined() -> None:
    eight = cycle(fit(sweep((0, 5000.0))), 0, batch=8)
    assert not eight.determined
    assert eight.lo is not None and eight.lo < 5000
    assert eight.hi is not None and eight.hi > 8 * 5000


def test_a_sweep_of_a_table_is_held_against_its_own_plain_step() -> None:
    slow = run("a", configuration(0, 28_000.0), configuration(3, 20_000.0), configuration(5, 30_000.0))
    fast = run("b", configuration(0, 14_000.0), configuration(3, 20_000.0))
    model = fit(inspection(slow, fast))
    assert [text.split(":")[0] for text in model.warnings if "shorter than a plain step" in text] == ["a"]


def test_a_run_that_names_no_gpu_joins_the_only_one_of_its_server() -> None:
    runs = (run("a", configuration(0, 5000.0), gpu="H200"), run("b", configuration(3, 8000.0), gpu=None))
    model = fit_cost_model(inspection(*runs), draws=20)
    (group,) = model.groups
    assert group.gpu == "H200" and len(group.cells) == 2
    assert any("b names no GPU and counts as run on H200" in text for text in model.warnings)
    third = run("c", configuration(1, 6000.0), gpu="A100")
    assert len(fit_cost_model(inspection(*runs, third), draws=20).groups) == 3
    new = inspection(run("new", configuration(0, 5100.0), gpu=None))
    assert check_model(model, new, "m").configurations[0].run == "new"


def test_a_lone_configuration_that_is_badly_predicted_asks_for_a_run() -> None:
    cells = [
        run(f"k{k}b{b}{again}", configuration(k, 5000.0 + 900 * k + 30 * b + 10 * b * k, batch_size=b))
        for k in (0, 1, 3, 5)
        for b in (1, 4, 8)
        for again in "xy"
    ]
    fine = fit_cost_model(inspection(*cells), draws=30).groups[0]
    odd = run("odd", configuration(2, 9500.0, batch_size=4))
    group = fit_cost_model(inspection(*cells, odd), draws=30).groups[0]
    assert fine.next_runs == ()
    (asked,) = group.next_runs
    assert (asked.num_steps, asked.batch_size) == (2, 8)
    assert "left out, 2 steps at batch 4 is predicted" in asked.why
    assert "No further run would help much." in fit_text(fit_report(CostModel(groups=(fine,)), "m.json"))
