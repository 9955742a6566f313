"""Checks fail where a run's numbers cannot be trusted, and say why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_trace import Cycles, eagle_cycles
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.inspection import HealthCheck
from toolkit.schema.log import LogLine, ServerLog
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans
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
    none = {name: getattr(kernels, name)[:0] for name in type(kernels).__slots__}
    return replace(trace, kernels=type(kernels)(**none))


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
