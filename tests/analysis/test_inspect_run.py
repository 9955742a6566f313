"""One recording in, one report out: what each source gives, alone and together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_trace import Cycles, Engine, eagle_cycles
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.api import inspect_paths
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.client import ClientRepeat, ClientResult, RequestCount
from toolkit.schema.inspection import Configuration, PhaseTime, RunReport
from toolkit.schema.log import LogLine, ServerLog
from toolkit.schema.measurement import Measurement
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle


def report(info: RunInfo | None = None, **parts: Any) -> RunReport:
    return inspect_recording(Recording(name="run", source="run", info=info or RunInfo(), **parts))


def only(found: RunReport) -> Configuration:
    (cell,) = found.configurations
    return cell


def log(*pairs: tuple[float, float]) -> ServerLog:
    lines = tuple(
        LogLine(
            engine="sglang", kind="decode", running_req=1, accept_length=a, accept_rate=r, tok_s=100.0 * a
        )
        for a, r in pairs
    )
    return ServerLog(source="server.log", lines=lines)


CLIENT = ClientResult(
    batch_size=1,
    repeats=(ClientRepeat(seconds=2.0, output_tokens=400), ClientRepeat(seconds=2.0, output_tokens=400)),
    requests=(
        RequestCount(verify_cycles=200, num_correct_drafts=200, correct_drafts_histogram=(50, 100, 50)),
    ),
)
SPANS = RankSpans(
    source="spans",
    tp_rank=0,
    clock="host",
    dropped=0,
    cycles=tuple(
        SpanCycle(
            cycle=at,
            t_ns=at * 9_000_000,
            batch_size=1,
            num_steps=3,
            num_draft_tokens=4,
            stage_us={"draft": 1000.0, "verify": 5000.0},
            correct_drafts=(1,),
        )
        for at in range(20)
    ),
)


def test_a_log_alone_gives_cycle_acceptance_and_throughput() -> None:
    found = report(log=log((2.17, 0.36), (1.65, 0.28)))
    cell = only(found)
    assert (cell.sources, cell.cycle_source, cell.ranks) == (("log",), "log", ())
    assert cell.cycle_us is not None
    assert cell.cycle_us.median == pytest.approx(10_000.0)
    assert (found.num_draft_tokens, found.num_steps) == (6, 5)
    assert "imply 6 draft tokens, taken as a chain of 5 steps" in found.warnings[0]
    assert cell.bound == "unknown"


def test_spans_alone_give_stage_times_and_no_graph_times() -> None:
    cell = only(report(spans=(SPANS,)))
    assert cell.cycle_us is not None
    assert cell.cycle_us.median == 9000.0
    verify = cell.ranks[0].phases["verify"]
    assert (verify.graph_us, verify.busy_us, verify.kernels) == (None, None, None)
    assert verify.stage_us is not None
    assert verify.stage_us.median == 5000.0
    assert cell.acceptance is not None
    assert cell.acceptance.accept_length == 2.0


def test_a_client_alone_gives_throughput_and_acceptance() -> None:
    cell = only(report(RunInfo(num_steps=3, num_draft_tokens=4), client=CLIENT))
    assert cell.throughput_tok_s.measured == 200.0
    assert cell.acceptance is not None
    assert cell.acceptance.accept_length == 2.0
    assert cell.cycle_us is not None
    assert (cell.cycle_us.median, cell.cycle_source) == (10_000.0, "client")


def test_a_trace_alone_gives_phases_and_claims_no_acceptance(tmp_path: Path) -> None:
    paths = eagle_cycles(Cycles(2), 8, Engine(steps=4)).write(tmp_path)
    found = report(traces=tuple(map(read_trace, paths)))
    cell = only(found)
    assert (found.engine, found.tp_size, found.draft_tp, found.num_steps) == ("sglang", 2, 2, 4)
    assert cell.acceptance is None
    assert cell.throughput_tok_s.from_cycle is None
    assert set(cell.ranks[0].phases) == {"draft", "verify", "sample", "draft_extend", "gap"}


def test_a_table_alone_gives_a_configuration_a_row() -> None:
    rows = (
        Measurement(row=2, num_steps=0, batch_size=1, tok_s=90.0),
        Measurement(row=3, num_steps=5, batch_size=1, tok_s=71.3, accept_length=2.0),
    )
    plain, drafted = report(measurements=rows).configurations
    assert plain.cycle_us is not None
    assert plain.cycle_us.median == pytest.approx(11_111.1, abs=0.1)
    assert plain.acceptance is None
    assert (drafted.row, drafted.sources) == (3, ("table",))


def test_nothing_alone_gives_nothing() -> None:
    found = report()
    assert (found.configurations, found.sources, found.draft_tp) == ((), (), None)


def test_sources_of_one_configuration_are_joined_and_all_named(tmp_path: Path) -> None:
    trace = tuple(map(read_trace, eagle_cycles(Cycles(), 8, Engine(steps=3)).write(tmp_path)))
    info = RunInfo(num_steps=3, num_draft_tokens=4, batch_size=1, topk=1)
    cell = only(report(info, spans=(SPANS,), log=log((2.0, 0.33)), traces=trace, client=CLIENT))
    assert cell.sources == ("spans", "log", "trace", "client")
    assert cell.cycle_source == "spans"
    verify = cell.ranks[0].phases["verify"]
    assert isinstance(verify, PhaseTime)
    assert verify.graph_us is not None
    assert verify.stage_us is not None


def test_a_table_row_that_repeats_a_log_line_counts_once() -> None:
    row = Measurement(row=2, batch_size=1, tok_s=217.0, accept_length=2.17)
    found = report(log=log((2.17, 0.36), (1.65, 0.28)), measurements=(row,))
    assert len(found.configurations) == 1
    assert any("1 row of the table repeats a line of the log" in warning for warning in found.warnings)


def test_quantiles_of_a_gap_are_never_below_zero_and_its_mean_keeps_its_sign(tmp_path: Path) -> None:
    trace = tuple(map(read_trace, eagle_cycles(Cycles(), 8, Engine(steps=3)).write(tmp_path)))
    alone = only(report(traces=trace)).ranks[0].phases
    busy_us = sum(time.graph_us.median for name, time in alone.items() if name != "gap" and time.graph_us)
    short = SPANS.cycles[0].t_ns
    cycles = tuple(
        replace(cycle, t_ns=short + at * round(busy_us * 900)) for at, cycle in enumerate(SPANS.cycles)
    )
    info = RunInfo(num_steps=3, num_draft_tokens=4, batch_size=1, topk=1)
    joined = only(report(info, spans=(replace(SPANS, cycles=cycles),), traces=trace))
    gap = joined.ranks[0].phases["gap"].graph_us
    assert gap is not None
    assert (gap.p10, gap.median, gap.p90) == (0.0, 0.0, 0.0)  # the cycle is a tenth below its phases
    assert gap.mean < 0


def test_a_draft_tp_that_the_collectives_do_not_prove_is_warned_about(tmp_path: Path) -> None:
    trace = tuple(map(read_trace, eagle_cycles(Cycles(2), 8).write(tmp_path)))
    found = report(RunInfo(draft_tp=1), traces=trace)
    assert found.draft_tp == 2
    assert any("the draft runs at TP 2" in warning for warning in found.warnings)


def test_the_founding_run_gives_its_step_count_cycles_and_meaning_of_the_rate(data: Path) -> None:
    found = inspect_paths([data / "kimi-k2.5-tp8"]).runs[0]
    from_log = found.configurations[0]
    assert (found.tp_size, found.num_draft_tokens, found.num_steps) == (8, 6, 5)
    assert from_log.cycle_us is not None
    assert from_log.cycle_us.count == 2  # the third line is cut
    assert from_log.cycle_us.median == pytest.approx(27_803, abs=30)
    assert (from_log.cycle_us.p10, from_log.cycle_us.p90) == (
        pytest.approx(27_457, abs=20),
        pytest.approx(28_149, abs=20),
    )
    assert from_log.acceptance is not None
    assert from_log.acceptance.rate_kind == "length/tokens"
    assert from_log.acceptance.accept_length == pytest.approx(1.91)
    plain, mean = found.configurations[1:]
    assert plain.cycle_us is not None
    assert (plain.num_steps, plain.cycle_us.median) == (0, pytest.approx(11_111, abs=1))
    assert (mean.num_steps, mean.throughput_tok_s.measured) == (5, 71.3)


@pytest.fixture(scope="module")
def tp2(traces: Path) -> RunReport:
    return inspect_paths([traces / "2026-11-29-sglang-llama8b-dummy-tp2-k3-b1"]).runs[0]


def graph_us(found: RunReport, rank: int, phase: str) -> float:
    time = found.configurations[0].ranks[rank].phases[phase].graph_us
    assert time is not None
    return round(time.median)


def test_the_recorded_tp2_run_has_the_times_that_were_found_by_hand(tp2: RunReport) -> None:
    by_phase = {
        phase: [graph_us(tp2, rank, phase) for rank in (0, 1)]
        for phase in ("draft", "verify", "draft_extend")
    }
    assert by_phase == {"draft": [490, 397], "verify": [3755, 3827], "draft_extend": [227, 437]}
    phases = tp2.configurations[0].ranks[0].phases
    assert [phases[name].kernels for name in ("draft", "verify", "draft_extend")] == [84, 525, 32]
    assert phases["verify"].busy_us == pytest.approx(3598, abs=1)


def test_the_recorded_tp2_run_has_the_collectives_that_were_counted_by_hand(tp2: RunReport) -> None:
    found = {(c.phase, c.op): c for c in tp2.configurations[0].collectives}
    assert {key: report.per_cycle for key, report in found.items()} == {
        ("draft", "all_reduce"): 6,
        ("draft", "all_gather"): 2,
        ("verify", "all_reduce"): 65,
        ("verify", "all_gather"): 1,
        ("draft_extend", "all_reduce"): 3,
        ("draft_extend", "all_gather"): 1,
    }
    assert found["verify", "all_reduce"].wire_us == pytest.approx(2.3, abs=0.05)
    assert found["verify", "all_reduce"].matched_fraction == 1.0


def test_the_recorded_plain_run_has_one_phase(traces: Path) -> None:
    found = inspect_paths([traces / "2026-11-29-sglang-llama8b-dummy-tp1-k0-b1"]).runs[0]
    decode = found.configurations[0].ranks[0].phases["decode"]
    assert decode.graph_us is not None
    assert (decode.kernels, round(decode.graph_us.median)) == (421, 4688)
