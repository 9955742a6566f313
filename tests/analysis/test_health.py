"""Checks fail where a run's numbers cannot be trusted, and say why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.made_trace import Cycles, eagle_cycles
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.client import ClientRepeat, ClientResult
from toolkit.schema.inspection import HealthCheck
from toolkit.schema.log import LogLine, ServerLog
from toolkit.schema.measurement import Measurement
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle
from toolkit.schema.trace import RankTrace


def traces(folder: Path, ranks: int = 1, **made: Any) -> tuple[RankTrace, ...]:
    written = eagle_cycles(Cycles(ranks, **made), 8).write(folder)
    return tuple(read_trace(path) for path in written)


def checks(info: RunInfo | None = None, **parts: Any) -> dict[str, HealthCheck]:
    recording = Recording(name="run", source="run", info=info or RunInfo(), **parts)
    return {check.check: check for check in inspect_recording(recording).health}


def log(*lengths: float) -> ServerLog:
    lines = tuple(
        LogLine(engine="sglang", kind="decode", running_req=1, accept_length=length, tok_s=100.0)
        for length in lengths
    )
    return ServerLog(source="server.log", lines=lines)


def without_kernels(trace: RankTrace) -> RankTrace:
    kernels = trace.kernels
    columns = {name: getattr(kernels, name) for name in type(kernels).__slots__}
    none = {name: column[:0] for name, column in columns.items() if isinstance(column, np.ndarray)}
    return replace(trace, kernels=replace(kernels, **none))


def test_a_whole_trace_passes_every_check(tmp_path: Path) -> None:
    found = checks(traces=traces(tmp_path, ranks=2))
    assert {name for name, check in found.items() if check.ok is not True} == set()
    assert {"kernels captured", "no kernel lost", "ranks present", "cycles repeat", "files whole"} <= set(
        found
    )


def test_a_rank_without_kernels_is_named(tmp_path: Path) -> None:
    first, second = traces(tmp_path, ranks=2)
    found = checks(traces=(first, without_kernels(second)))
    assert found["kernels captured"].ok is False
    assert "no kernel on rank 1" in found["kernels captured"].detail


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    four = traces(tmp_path, ranks=4)
    found = checks(traces=(*four[:2], four[3]))["ranks present"]
    assert found.ok is False
    assert "rank 2 of 4 is missing" in found.detail


def test_one_rank_of_two_promises_no_wire_time(tmp_path: Path) -> None:
    one, _ = traces(tmp_path, ranks=2)
    found = checks(traces=(one,))["ranks present"]
    assert found.detail == (
        "rank 1 of 2 is missing: wire and wait of collectives need the traces of two ranks or more"
    )


def test_a_throughput_that_disagrees_says_what_to_do() -> None:
    client = ClientResult(batch_size=1, repeats=(ClientRepeat(seconds=4.0, output_tokens=400),))
    cycles = tuple(SpanCycle(cycle=at, t_ns=at * 9_000_000, batch_size=1, num_steps=0) for at in range(20))
    spans = RankSpans(source="s", tp_rank=0, clock="", dropped=0, cycles=cycles)
    found = checks(RunInfo(num_steps=0, batch_size=1), client=client, spans=(spans,))["throughput agrees"]
    assert found.ok is False
    assert "a client's seconds hold the prompts' prefill: drive longer outputs, or add" in found.detail
    exact = ClientResult(batch_size=1, repeats=(ClientRepeat(seconds=9.0004, output_tokens=1000),))
    agreed = checks(RunInfo(num_steps=0, batch_size=1), client=exact, spans=(spans,))["throughput agrees"]
    assert (agreed.ok, agreed.detail[-8:]) == (True, " (+0.0%)")


def test_kernels_missing_from_a_damaged_trace_are_not_laid_at_the_profilers_door_alone(
    tmp_path: Path,
) -> None:
    damaged = tuple(replace(trace, damage=("x",)) for trace in traces(tmp_path, lose=0.02))
    assert "or the file is damaged (see files whole)" in checks(traces=damaged)["no kernel lost"].detail


def test_a_size_that_cannot_be_does_not_stop_the_check(tmp_path: Path) -> None:
    found = checks(RunInfo(tp_size=10**9), traces=traces(tmp_path))["ranks present"]
    assert found.ok is False
    assert len(found.detail) < 300


def test_kernels_lost_from_replays_are_counted(tmp_path: Path) -> None:
    found = checks(traces=traces(tmp_path, lose=0.02))["no kernel lost"]
    assert found.ok is False
    assert "the profiler lost records" in found.detail


def test_python_stacks_are_named(tmp_path: Path) -> None:
    found = checks(traces=tuple(replace(trace, with_stack=True) for trace in traces(tmp_path)))
    assert found["trace without Python stacks"].ok is False


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((9.0,), "accept length 9.00 is impossible: a cycle commits 1 to 4 tokens"),
        ((2.0,) * 50 + (9.0,), "accept length 9.00 is impossible"),  # one line among many
        ((1.0, 1.0), "accept length is 1.00: no draft was ever kept"),
    ],
)
def test_an_accept_length_that_cannot_be_is_named(lengths: tuple[float, ...], said: str) -> None:
    found = checks(RunInfo(num_steps=3, num_draft_tokens=4), log=log(*lengths))["accept length possible"]
    assert found.ok is False
    assert said in found.detail


def test_an_accept_length_within_the_draft_tokens_is_possible() -> None:
    assert checks(RunInfo(num_steps=3, num_draft_tokens=4), log=log(4.0))["accept length possible"].ok is True


@pytest.mark.parametrize("good", [2, 30])  # of few lines none may differ, of many a tenth
def test_a_length_above_what_most_lines_imply_is_impossible_also_where_no_file_states_the_width(
    good: int,
) -> None:
    lines = [
        LogLine(
            engine="sglang",
            kind="decode",
            running_req=1,
            accept_length=length,
            accept_rate=0.36,
            tok_s=length * 36,
            line_number=number,
        )
        for number, length in enumerate([*[2.17] * good, 7.17], 1)
    ]
    found = checks(log=ServerLog(source="server.log", lines=tuple(lines)))["accept length possible"]
    assert found.ok is False
    assert "accept length 7.17 is impossible: a cycle commits 1 to 6 tokens" in found.detail
    assert f"(line {good + 1} of the log)" in found.detail
    whole = checks(log=ServerLog(source="server.log", lines=tuple(lines[:-1])))["accept length possible"]
    assert whole.ok is True


def test_a_length_above_the_positions_that_a_log_prints_is_impossible() -> None:
    lines = [
        LogLine(
            engine="vllm",
            kind="spec_metrics",
            running_req=1,
            accept_length=length,
            tok_s=100.0,
            accept_by_position=positions,
            line_number=number,
        )
        for number, length, positions in [(1, 2.0, (0.6, 0.4)), (2, 2.1, (0.6, 0.5)), (3, 3.2, (0.6,))]
    ]
    found = checks(log=ServerLog(source="server.log", lines=tuple(lines)))["accept length possible"]
    assert found.ok is False
    assert "accept length 3.20 is impossible: a cycle commits 1 to 3 tokens" in found.detail


def row(number: int, steps: int, **known: Any) -> Measurement:
    return Measurement(row=number, **{"sweep": "a", "batch_size": 8, "num_steps": steps, **known})


def test_a_cycle_below_the_plain_step_of_its_sweep_and_batch_is_named_by_its_row() -> None:
    rows = (
        row(2, 0, cycle_ms=14.2),
        row(3, 3, cycle_ms=12.8),
        row(4, 5, tok_s=1000.0, accept_length=1.5),  # 12 ms
        row(5, 5, cycle_ms=14.3),
        row(6, 3, cycle_ms=12.8, batch_size=1),
        row(7, 3, cycle_ms=12.8, sweep="b"),
    )
    found = checks(measurements=rows)["cycles above the plain step"]
    assert found.ok is False
    assert found.detail.startswith("rows 3, 4 of the table: the cycle is shorter than the plain step")
    assert checks(measurements=(rows[0], rows[3]))["cycles above the plain step"].ok is True
    assert "cycles above the plain step" not in checks(measurements=rows[1:])


def test_draft_and_verify_above_the_cycle_are_named_by_their_row() -> None:
    rows = (
        row(2, 3, cycle_ms=10.0, draft_ms=4.0, verify_ms=7.0),
        row(3, 3, cycle_ms=11.0, draft_ms=4.0, verify_ms=7.0),
    )
    found = checks(measurements=rows)["draft and verify within the cycle"]
    assert (found.ok, found.detail.split(":")[0]) == (False, "row 2 of the table")
    assert checks(measurements=rows[1:])["draft and verify within the cycle"].ok is True


def test_throughput_of_a_table_that_its_cycle_denies_is_named_by_its_row() -> None:
    rows = (row(2, 0, cycle_ms=8.0, tok_s=1000.0), row(3, 3, cycle_ms=8.0, tok_s=1000.0, accept_length=2.0))
    found = checks(measurements=rows)["table agrees with itself"]
    assert (found.ok, found.detail.split(":")[0]) == (False, "row 3 of the table")


def test_an_impossible_length_of_a_table_is_named_by_its_row() -> None:
    found = checks(measurements=(row(7, 3, accept_length=4.5, num_draft_tokens=4),))["accept length possible"]
    assert (found.ok, "(row 7 of the table)" in found.detail) == (False, True)


def test_damage_of_any_file_is_named(tmp_path: Path) -> None:
    spans = RankSpans(source="s", tp_rank=0, clock="", dropped=3, cycles=(), damage=("the spans are cut",))
    found = checks(log=replace(log(2.0), damage=("the log is cut",)), spans=(spans,))
    assert found["files whole"].ok is False
    assert found["files whole"].detail == "the spans are cut; the log is cut"
    assert found["no span dropped"].ok is False
    assert "3 cycles" in found["no span dropped"].detail


def test_ids_shared_by_launches_reach_the_user_as_damage(tmp_path: Path) -> None:
    damaged = tuple(
        replace(trace, damage=("2 calls share their correlation id",)) for trace in traces(tmp_path)
    )
    assert checks(traces=damaged)["files whole"].ok is False
