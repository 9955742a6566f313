"""The fit against runs of known cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.made_runs import (
    acceptance,
    allreduce,
    configuration,
    founding_case,
    inspection,
    ranks,
    run,
    spread,
    sweep,
)
from toolkit.errors import UndeterminedError
from toolkit.model.after_run import one_step, unseen
from toolkit.model.check import check_model
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.fit import fit_cost_model
from toolkit.model.fit_report import fit_report
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting
from toolkit.report.fit_text import fit_text
from toolkit.schema.codec import to_json
from toolkit.schema.cost import CostModel, Term
from toolkit.schema.inspection import DraftStep, Inspection, PhaseTime, RankReport

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


def test_a_cycle_traced_with_stacks_never_enters() -> None:
    inflated = run(
        "traced",
        configuration(3, 18_000.0, cycle_source="trace", ranks=ranks(verify=4000.0)),
        with_stack=True,
    )
    model = fit(inspection(inflated, *sweep((0, 3000.0)).runs))
    assert [cell.cycle_us for cell in model.groups[0].cells if cell.num_steps == 3] == [None]


def test_a_host_bound_cycle_is_a_floor_and_no_slope() -> None:
    phases = ranks(draft=400.0, draft_extend=200.0, verify=3000.0)
    bound = run("host", configuration(3, 7000.0, bound="host", ranks=phases))
    model = fit(inspection(bound, run("plain", configuration(0, 3000.0))))
    assert term(model, "host_cycle_us").value == pytest.approx(7000, rel=1e-3)
    assert cycle(model, 3).value == pytest.approx(7000, rel=1e-3)
    assert cycle(model, 4).value == pytest.approx(7000, rel=1e-3)
    assert "host_us" not in model.groups[0].columns


def test_without_overlap_host_time_is_added_even_when_it_is_long() -> None:
    phases = ranks(draft=400.0, draft_extend=200.0, verify=3000.0)
    made = run("host", configuration(3, 7000.0, bound="host", ranks=phases), overlap_schedule=False)
    model = fit(inspection(made))
    assert term(model, "host_us").value == pytest.approx(3400, rel=1e-2)


def test_waits_for_other_ranks_are_not_verify_time() -> None:
    late = RankReport(
        tp_rank=0,
        gpu_busy_fraction=None,
        phases={"verify": PhaseTime(graph_us=spread(4300.0), wait_us=300.0)},
    )
    model = fit(inspection(run("r", configuration(1, 6000.0, ranks=(late,)))))
    verify = [
        sum(
            model.groups[0].solution[model.groups[0].columns.index(name)] * times
            for name, times in (("verify_us", 1), ("verify_token_us", 2))
        )
    ]
    assert verify == pytest.approx([4000], rel=1e-3)


def test_allreduce_is_measured_and_taken_out_of_the_phases() -> None:
    made = run(
        "tp2",
        configuration(
            3,
            6000.0,
            ranks=ranks(verify=4000.0, draft=500.0, draft_extend=250.0),
            collectives=(allreduce("verify", 65, 10.0), allreduce("draft", 6, 10.0)),
        ),
        tp_size=2,
    )
    model = fit(inspection(made))
    assert term(model, "allreduce_us").value == pytest.approx(10)
    counts = {cost.phase: cost.per_forward for cost in model.groups[0].collectives}
    assert counts == {"verify": 65, "draft": 3, "decode": 65}
    assert cycle(model, 3).value == pytest.approx(6000, rel=1e-3)


def test_stage_times_are_marked_and_never_mixed_with_graph_times() -> None:
    def phases(**times: PhaseTime) -> tuple[RankReport, ...]:
        return (RankReport(tp_rank=0, gpu_busy_fraction=None, phases=times),)

    graph = run("g", configuration(3, 6000.0, ranks=phases(verify=PhaseTime(graph_us=spread(4000.0)))))
    stage = run("s", configuration(3, 6000.0, ranks=phases(verify=PhaseTime(stage_us=spread(4900.0)))))
    model = fit(inspection(graph, stage))
    columns = list(model.groups[0].columns)
    verify = model.groups[0].solution[columns.index("verify_us")]
    token = model.groups[0].solution[columns.index("verify_token_us")]
    assert verify + 4 * token == pytest.approx(4000, rel=1e-3)
    assert any("left out" in text and "verify" in text for text in model.groups[0].warnings)
    alone = fit(inspection(stage))
    assert any("launch gaps" in text for text in alone.groups[0].warnings)


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


def test_host_time_without_overlap_is_a_term_of_its_own() -> None:
    phases = ranks(draft=400.0, draft_extend=200.0, verify=3000.0)
    hidden = run("hidden", configuration(3, 3800.0, ranks=phases))
    serial = run("serial", configuration(3, 5600.0, ranks=phases), overlap_schedule=False)
    model = fit(inspection(hidden, serial))
    assert term(model, "host_us").value == pytest.approx(200, rel=1e-2)
    assert term(model, "host_serial_us").value == pytest.approx(1800, rel=1e-2)
    assert cycle(model, 3).value == pytest.approx(3800, rel=1e-3)


def test_context_is_counted_as_the_runs_say_of_one_request_or_of_all() -> None:
    def plain(batch: int, context: int, us: float) -> Inspection:
        made = configuration(0, us, batch_size=batch, context_tokens=context)
        return inspection(run(f"b{batch}c{context}", made))

    of_all = together(*(plain(b, c, 5000.0 + 0.1 * b * c) for b in (1, 8) for c in (500, 4000, 16000)))
    of_one = together(*(plain(b, c, 5000.0 + 0.4 * c) for b in (1, 8) for c in (500, 4000, 16000)))
    assert "decode_kv_us" in fit(of_all).groups[0].columns
    assert term(fit(of_all), "decode_kv_us").value == pytest.approx(100, rel=1e-2)
    assert term(fit(of_one), "decode_context_us").value == pytest.approx(400, rel=1e-2)


def test_kernels_launched_one_by_one_count_without_the_gaps_a_trace_widens() -> None:
    eager = RankReport(
        tp_rank=0,
        gpu_busy_fraction=0.95,
        phases={
            "draft": PhaseTime(graph_us=spread(3000.0), busy_us=800.0, graph=False),
            "verify": PhaseTime(graph_us=spread(4000.0), graph=True),
        },
    )
    model = fit(inspection(run("v", configuration(3, 6000.0, ranks=(eager,)), engine="vllm")))
    assert term(model, "draft_forward_us").value == pytest.approx(400, rel=1e-2)


def test_a_traced_cycle_with_an_idle_gpu_is_the_tracers() -> None:
    idle = RankReport(tp_rank=0, gpu_busy_fraction=0.5, phases={"verify": PhaseTime(graph_us=spread(4000.0))})
    made = run("t", configuration(3, 12_000.0, cycle_source="trace", ranks=(idle,)))
    assert fit(inspection(made)).groups[0].cells[0].cycle_us is None


def test_collectives_of_another_algorithm_are_taken_out_of_their_own_run() -> None:
    def made(name: str, wire: float) -> Inspection:
        phases = ranks(draft=400.0, draft_extend=200.0, verify=3000.0 + 65 * wire)
        one = configuration(3, 3700.0 + 65 * wire, ranks=phases, collectives=(allreduce("verify", 65, wire),))
        return inspection(run(name, one, tp_size=2))

    model = fit(together(made("custom", 2.0), made("custom2", 2.0), made("nccl", 10.0)))
    assert cycle(model, 3).value == pytest.approx(3830, rel=1e-2)
    assert model.groups[0].noise.speculative_spread < 0.2


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
