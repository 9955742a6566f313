"""Ways to be wrong about cycle times (docs/pitfalls.md), on made data whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.model.made_answers import at, near
from tests.model.made_fits import cycle, fit, together, traced
from tests.model.made_runs import configuration, inspection, ranks, run
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.errors import UndeterminedError
from toolkit.ingest.logs.server_args import read_server_args
from toolkit.ingest.logs.server_log import read_log_line
from toolkit.model.experts import Experts, touched
from toolkit.model.graph_sizes import padded_to, sglang_sizes
from toolkit.schema.inspection import Inspection, PhaseTime, RankReport, RunReport
from toolkit.schema.log import ServerLog
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle


def forwards(cycle_us: float, steps: int, *, graph: bool, batch: int = 1) -> RunReport:
    """Return a run whose target forward is known to have been replayed as a graph, or not."""
    phase = "verify" if steps else "decode"
    time = PhaseTime(graph=graph)
    told = (RankReport(tp_rank=0, gpu_busy_fraction=None, phases={phase: time}),)
    name = f"k{steps}b{batch}{'' if graph else ' eager'}"
    return run(name, configuration(steps, cycle_us, batch_size=batch, ranks=told))


def test_runs_without_graphs_do_not_raise_the_cost_of_a_step() -> None:
    """Pitfall 7: a step costs 0.5 ms in a graph and 2 ms without; the runs without are left out aloud."""
    graphs = [forwards(10_000.0 + 500 * steps, steps, graph=True) for steps in (0, 1, 3)]
    eager = [forwards(12_000.0 + 2000 * steps, steps, graph=False) for steps in (2, 5)]
    model = fit(inspection(*graphs, *eager))
    assert cycle(model, 5).value == pytest.approx(12_500, rel=1e-3)
    left_out = [text for text in model.warnings if "without CUDA graphs" in text]
    assert [text.split(":")[0] for text in left_out] == ["k2b1 eager", "k5b1 eager"]
    alone = fit(inspection(*eager))
    assert cycle(alone, 5).value == pytest.approx(22_000, rel=1e-3)


DECODE = (
    "[2026-02-26 14:47:{second:02d} TP0] Decode batch, #running-req: {batch}, #token: 202, "
    "token usage: 0.00, accept len: 2.00, accept rate: 0.33, cuda graph: {graph}, "
    "gen throughput (token/s): {tok_s:.2f}, "
    "#queue-req: 0"
)


def log_of(*windows: tuple[int, bool, float]) -> ServerLog:
    """Return a log of windows of (batch, whether graphs ran, cycle in ms), as SGLang prints it."""
    lines = [
        read_log_line(
            DECODE.format(second=at, batch=batch, graph=graph, tok_s=batch * 2.0 / ms * 1000), at + 1
        )
        for at, (batch, graph, ms) in enumerate(windows)
    ]
    return ServerLog(source="server.log", lines=tuple(line for line in lines if line))


def logged(*windows: tuple[int, bool, float], steps: int = 5) -> RunReport:
    info = RunInfo(engine="sglang", model="m", gpu="g", tp_size=1, num_steps=steps, topk=1)
    return inspect_recording(Recording(name=f"k{steps}", source="r", info=info, log=log_of(*windows)))


def test_cycles_of_a_log_without_graphs_are_kept_apart_and_left_out() -> None:
    """Pitfall 7: at batch 2 a third of the windows ran without graphs, at three times the cycle."""
    windows = [(2, True, 12.0)] * 6 + [(2, False, 36.0)] * 4 + [(2, True, 12.0)] * 3
    found = logged(*windows)
    told = {cell.graph: cell.cycle_us.mean for cell in found.configurations if cell.cycle_us}
    assert told == pytest.approx({True: 12_000.0, False: 36_000.0}, rel=1e-3)
    (warning,) = [text for text in found.warnings if "CUDA graphs" in text]
    assert "batch 2 (36.00 ms) ran without CUDA graphs" in warning
    model = fit(inspection(found, logged(*[(2, True, 10.0)] * 5, steps=3)))
    assert cycle(model, 5, 2).value == pytest.approx(12_000, rel=1e-2)
    assert sum("without CUDA graphs" in text for text in model.warnings) == 1


def test_a_log_without_any_graph_is_fitted_and_said_to_be() -> None:
    eager = inspection(*(logged(*[(1, False, 20.0 + 3 * steps)] * 4, steps=steps) for steps in (1, 3, 5)))
    model = fit(eager)
    assert cycle(model, 5).value == pytest.approx(35_000, rel=1e-2)
    assert any("every forward ran without CUDA graphs" in text for text in model.groups[0].warnings)
    assert all(any("a server without graphs" in text for text in run.warnings) for run in eager.runs)


def test_cycles_of_spans_with_and_without_graphs_are_two_configurations() -> None:
    """Pitfall 7: of 10 ms cycles a quarter ran without a graph, for 40 ms each."""
    cycles, now = [], 0
    for number in range(200):
        graph = number % 100 < 75
        cycles.append(
            SpanCycle(
                cycle=number,
                t_ns=now,
                batch_size=1,
                num_steps=3,
                num_draft_tokens=4,
                graph={"draft": True, "verify": graph},
            )
        )
        now += 10_000_000 if graph else 40_000_000
    spans = RankSpans(source="spans", tp_rank=0, clock="host", dropped=0, cycles=tuple(cycles))
    info = RunInfo(engine="sglang", model="m", gpu="g", tp_size=1)
    found = inspect_recording(Recording(name="r", source="r", info=info, spans=(spans,))).configurations
    told = {cell.graph: cell.cycle_us.mean for cell in found if cell.cycle_us}
    assert told == pytest.approx({True: 10_000.0, False: 40_000.0})


def padded(batch: int, graph: int, steps: int, *, told: bool = True) -> RunReport:
    """Return a run of a server that takes 1 ms for each sequence of the graph it replays."""
    us = 9000.0 + 1000 * graph + 500 * steps
    size = graph if told else None
    return run(f"k{steps}b{batch}", configuration(steps, us, batch_size=batch, padded_batch_size=size))


def test_a_batch_costs_what_the_graph_costs_that_it_is_padded_to() -> None:
    """Pitfall 9: batches 5 and 8 replay one graph; a line over the batches themselves tells them apart."""
    graphs = ((1, 1), (3, 4), (4, 4), (5, 8), (8, 8))
    asked = {"accept_by_position": (0.7, 0.5, 0.3)}
    for told in (True, False):
        runs = [padded(*pair, steps, told=told) for pair in graphs for steps in (0, 1, 3)]
        model = fit(inspection(*runs))
        plain_ms = [at(near(model, **asked, batch_size=batch), 0).cycle_ms.value for batch, _ in graphs]
        true = [9.0 + graph for _, graph in graphs]
        assert (plain_ms == pytest.approx(true, rel=2e-3)) is told


def test_a_batch_that_no_run_had_is_padded_as_its_server_pads() -> None:
    """Pitfall 9: plain decoding of 3 requests replays the graph of 4, of 20 that of 24; verify its own."""
    asked = {"accept_by_position": (0.7, 0.5, 0.3)}
    true = {3: (4, 3), 5: (8, 5), 13: (16, 14), 20: (24, 20), 31: (32, 32)}
    runs = [padded(batch, batch, steps) for batch in (1, 2, 4, 8, 16, 32) for steps in (0, 1, 3)]
    model = fit(inspection(*(replace(one, largest_graph=32) for one in runs)))
    for batch, (plain_graph, graph) in true.items():
        answer = near(model, **asked, batch_size=batch)
        assert at(answer, 0).cycle_ms.value == pytest.approx(9.0 + plain_graph, rel=2e-3)
        assert at(answer, 3).cycle_ms.value == pytest.approx(10.5 + graph, rel=2e-3)
        assert not any("largest CUDA graph" in text for text in answer.warnings)
    beyond = near(model, **asked, batch_size=40)
    assert any("above the largest CUDA graph captured (32 for" in text for text in beyond.warnings)


def test_captured_sizes_come_from_the_server_s_arguments() -> None:
    """Pitfall 9: SGLang's largest batch or list, and vLLM's list, which counts tokens."""
    log = read_server_args(
        "server_args=ServerArgs(model_path='m', speculative_num_steps=3, cuda_graph_max_bs=12)"
    )
    assert log is not None and log.largest_graph == 12 and log.graph_sizes is None
    assert sglang_sizes(12, speculative=True) == (*range(1, 9), 10, 12)
    assert sglang_sizes(10, speculative=False) == (1, 2, 4, 8, 10)
    told = read_server_args("server_args=ServerArgs(model_path='m', cuda_graph_bs=[1, 4, 16])")
    assert told is not None and told.graph_sizes == (1, 4, 16)
    engine = "V1 LLM engine (v0.22.0) with config: model='m', compilation_config={'cudagraph_capture_sizes': "
    tokens = read_server_args(f"{engine}[1, 2, 4, 8, 16, 24, 32], 'mode': <Mode.A: 3>}}, seed=0")
    assert tokens is not None and tokens.graph_sizes == (1, 2, 4, 8, 16, 24, 32)
    assert [padded_to(tokens.graph_sizes, batch, tokens=4) for batch in (1, 3, 5, 8, 9)] == [1, 4, 6, 8, None]


def test_batches_above_the_largest_graph_do_not_tilt_the_line_below_it() -> None:
    """Pitfall 9: at batch 16 and 32 the server fell back to kernels launched one by one, 10 ms more."""
    inside = {batch: 10_000.0 + 100 * batch for batch in (1, 2, 4, 8)}
    beyond = {batch: 20_000.0 + 100 * batch for batch in (16, 32)}
    for told in (True, False):
        model = fit(
            inspection(
                *(forwards(us, 0, graph=True, batch=batch) for batch, us in inside.items()),
                *(forwards(us, 0, graph=not told, batch=batch) for batch, us in beyond.items()),
            )
        )
        found = [cycle(model, 0, batch).value for batch in inside]
        assert (found == pytest.approx(list(inside.values()), rel=2e-3)) is told
        assert sum("without CUDA graphs" in text for text in model.warnings) == (2 if told else 0)


def test_cycles_of_spans_that_held_a_prefill_are_not_in_the_cycle_time() -> None:
    """Pitfall 10: of 10 ms cycles every tenth is followed by a prefill of 40 ms."""
    starts, now = [], 0
    for number in range(200):
        starts.append(now)
        now += 50_000_000 if number % 10 == 9 else 10_000_000
    cycles = tuple(
        SpanCycle(cycle=number, t_ns=t_ns, batch_size=1, num_steps=3, num_draft_tokens=4)
        for number, t_ns in enumerate(starts)
    )
    spans = RankSpans(source="spans", tp_rank=0, clock="host", dropped=0, cycles=cycles)
    info = RunInfo(engine="sglang", model="m", gpu="g", tp_size=1)
    (found,) = inspect_recording(Recording(name="r", source="r", info=info, spans=(spans,))).configurations
    naive = (starts[-1] - starts[0]) / 199 / 1000
    assert naive > 13_500
    assert found.cycle_us is not None
    assert found.cycle_us.mean == pytest.approx(10_000, rel=1e-6)


def plain(us: float) -> Inspection:
    return inspection(run("plain", configuration(0, us, ranks=ranks(decode=us - 100.0))))


def test_a_draft_costs_more_with_more_steps_so_the_most_steps_are_not_always_best() -> None:
    """Pitfall 15: with a draft of one price the best is 8 steps, as acceptance never falls with steps."""
    model = fit(together(traced(2), traced(3, batch=4), traced(5), plain(4500.0)))
    asked = {"accept_by_position": (0.7, 0.45, 0.3, 0.2, 0.12, 0.08, 0.05, 0.03)}
    answer = near(model, **asked, batch_size=1)
    for steps in (3, 7):
        true = 200 * (steps - 1) + 300 + 4000 + 10 * (steps + 1) + 50 + 150
        assert at(answer, steps).cycle_ms.value == pytest.approx(true / 1000, rel=3e-3)
    fixed = at(answer, 2).cycle_ms.value or 0.0
    naive = {c.num_steps: (c.accept_length or 0.0) / fixed for c in answer.candidates if c.num_steps > 1}
    assert max(naive, key=lambda steps: naive[steps]) == 8
    chosen = answer.recommendation.candidate
    assert chosen is not None and answer.candidates[chosen].num_steps in (4, 5)  # 0.4 % apart


def experts_cycle(steps: int, batch: int) -> float:
    """Return a cycle of which 200 us go to each expert of 128 that its tokens touch, 8 a token."""
    verified = 1500 + 200 * touched(Experts(128, 8), batch * (steps + 1))
    return verified if steps == 0 else verified + 300 + 250 * steps


def straight_cycle(steps: int, batch: int) -> float:
    """Return a cycle that grows in proportion with its tokens, though its model has experts."""
    return 4600 + 740 * batch * (steps + 1) + (3000 + 300 * steps if steps else 0)


def of_experts(*batches: int, cycle_of: Callable[[int, int], float] = experts_cycle) -> Inspection:
    return inspection(
        *(
            run(
                f"k{steps}b{batch}",
                configuration(steps, cycle_of(steps, batch), batch_size=batch),
                model="Qwen3-235B-A22B",
            )
            for batch in batches
            for steps in (0, 1, 2, 3)
        )
    )


@pytest.mark.parametrize("cycle_of", (experts_cycle, straight_cycle))
def test_growth_with_the_batch_bends_as_the_group_s_own_cycles_do(
    cycle_of: Callable[[int, int], float],
) -> None:
    """Pitfall 12: a line through batches 1, 8 and 64 is 9 to 16 % below experts at 16 and 32."""
    model = fit(of_experts(1, 8, 64, cycle_of=cycle_of))
    asked = {"accept_by_position": (0.5, 0.2, 0.08), "steps": (0, 1, 2, 3)}
    for batch in (2, 4, 16, 32):
        answer = near(model, **asked, batch_size=batch)
        for steps in (0, 1, 3):
            true = cycle_of(steps, batch) / 1000
            assert at(answer, steps).cycle_ms.value == pytest.approx(true, rel=0.02)


def test_a_gain_of_experts_at_one_batch_is_not_carried_to_another_by_a_dense_law() -> None:
    """Pitfall 12: 2 steps lose at batch 1 and win at batch 64; runs of one batch say nothing of the other."""
    asked = {"accept_by_position": (0.5, 0.2, 0.08), "steps": (0, 1, 2, 3)}
    length = 1 + 0.5 + 0.2
    gains = {batch: length * experts_cycle(0, batch) / experts_cycle(2, batch) - 1 for batch in (1, 64)}
    assert gains[1] < -0.05 and gains[64] > 0.25

    with pytest.raises(UndeterminedError, match="only batch 1 was measured; runs at batch 64"):
        near(fit(of_experts(1)), **asked, batch_size=64)
    both = fit(of_experts(1, 64))
    for batch in (1, 64):
        answer = near(both, **asked, batch_size=batch)
        two, none = at(answer, 2).tok_s.value or 0.0, at(answer, 0).tok_s.value or 1.0
        assert two / none - 1 == pytest.approx(gains[batch], abs=0.03)
