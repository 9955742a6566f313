"""Phases, host, collectives and context in a fit: what belongs to which term."""

from __future__ import annotations

import pytest

from tests.model.made_fits import cycle, fit, term, together
from tests.model.made_runs import (
    allreduce,
    configuration,
    inspection,
    ranks,
    run,
    run_on_two_gpus,
    spread,
    sweep,
    timed,
)
from toolkit.schema.inspection import CollectiveReport, Inspection, PhaseTime, RankReport, RunReport


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
    made = run_on_two_gpus()
    model = fit(inspection(made))
    assert term(model, "allreduce_us").value == pytest.approx(10)
    counts = {cost.phase: cost.per_forward for cost in model.groups[0].collectives}
    assert counts == {"verify": 65, "draft": 3, "decode": 65}
    assert cycle(model, 3).value == pytest.approx(6000, rel=1e-3)


def two_gpus(name: str, *collectives: CollectiveReport, wire_us: float = 10.0) -> RunReport:
    """A run of 3 steps at TP 2, of which 3350 us and 65 collectives of `wire_us` are verify."""
    phases = ranks(verify=3350.0 + 65 * wire_us, draft=500.0, draft_extend=250.0)
    made = configuration(3, 5350.0 + 65 * wire_us, ranks=phases, collectives=collectives)
    return run(name, made, tp_size=2)


def test_allreduce_is_that_of_spans_where_no_trace_tells_and_says_so() -> None:
    model = fit(inspection(two_gpus("a", timed("verify", 65, 10.0), timed("draft", 6, 8.0))))
    found = term(model, "allreduce_us")
    assert found.value == pytest.approx((65 * 10 + 3 * 8) / 68)
    assert found.source.startswith("wire time in spans, all-gathers among them: 3 per draft forward, 65 per")
    costs = {(cost.phase, cost.source): cost.per_forward for cost in model.groups[0].collectives}
    assert costs == {("verify", "spans"): 65, ("draft", "spans"): 3, ("decode", "spans"): 65}
    assert cycle(model, 3).value == pytest.approx(6000, rel=1e-3)


def test_a_phase_that_a_trace_has_is_not_counted_again_from_spans() -> None:
    model = fit(
        inspection(
            two_gpus("traced", allreduce("verify", 65, 10.0)),
            two_gpus("timed", timed("verify", 66, 12.0), timed("draft", 6, 8.0)),
        )
    )
    sources = {cost.phase: cost.source for cost in model.groups[0].collectives}
    assert sources == {"verify": "trace", "draft": "spans", "decode": "trace"}
    found = term(model, "allreduce_us")
    assert (found.value, found.source) == (10.0, "wire time in traces: 65 per verify")


def test_collectives_that_spans_timed_are_taken_out_of_their_own_run() -> None:
    model = fit(
        inspection(
            *(two_gpus(f"fast{at}", timed("verify", 65, 2.0), wire_us=2.0) for at in range(2)),
            two_gpus("slow", timed("verify", 65, 10.0), wire_us=10.0),
        )
    )
    wires = [cell.wire_us for cell in model.groups[0].cells]
    assert wires == pytest.approx([130, 130, 650])


def test_spans_of_one_rank_give_no_allreduce() -> None:
    found = term(fit(inspection(two_gpus("one", timed("verify", 65, None)))), "allreduce_us")
    assert (found.value, found.identified) == (None, False)


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
