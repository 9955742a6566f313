"""Traces of all ranks as profilers leave them: in one file, of stages, of several windows in one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.made_trace import Cycles, eagle_cycles
from toolkit.errors import BadInputError
from toolkit.ingest.folders import read_all
from toolkit.schema.recording import Recording
from toolkit.schema.trace import RankTrace

Trace = dict[str, Any]


def made(ranks: int = 2, seed: int = 1) -> list[Trace]:
    cycles = eagle_cycles(Cycles(ranks=ranks, seed=seed), 3)
    return [cycles.trace(rank) for rank in cycles.ranks]


def put(folder: Path, name: str, traces: list[Trace]) -> Path:
    for rank, trace in enumerate(traces):
        (folder / name.format(rank)).write_text(json.dumps(trace), encoding="utf-8")
    return folder


def merged(traces: list[Trace], label: str) -> Trace:
    events = [
        {**event, "pid": f"{label.format(rank)}{event['pid']}"}
        for rank, trace in enumerate(traces)
        for event in trace["traceEvents"]
    ]
    return {**traces[0], "traceEvents": events}


def read(*paths: Path) -> list[Recording]:
    return read_all(paths)[0]


def kernels(trace: RankTrace) -> list[tuple[str, int, int, int]]:
    columns = (trace.kernels.start_ns, trace.kernels.duration_ns, trace.kernels.correlation)
    names = [trace.names[name] for name in trace.kernels.name.tolist()]
    return list(zip(names, *(np.asarray(column).tolist() for column in columns), strict=True))


@pytest.mark.parametrize("label", ["[TP{:02d}] ", "[TP{:02d}-DP00] ", "[TP-{}] "])
def test_a_merged_file_gives_what_the_ranks_own_files_give(tmp_path: Path, label: str) -> None:
    (tmp_path / "single").mkdir()
    (single,) = read(put(tmp_path / "single", "a-TP-{}.trace.json", made(ranks=3)))
    (tmp_path / "merged-1.trace.json").write_text(json.dumps(merged(made(ranks=3), label)), encoding="utf-8")
    (whole,) = read(tmp_path / "merged-1.trace.json")
    assert [trace.tp_rank for trace in whole.traces] == [0, 1, 2]
    assert [kernels(trace) for trace in whole.traces] == [kernels(trace) for trace in single.traces]
    assert {trace.source for trace in whole.traces} == {"merged-1.trace.json"}
    assert not any(trace.damage for trace in whole.traces)


def test_what_a_cut_merged_file_lost_is_said_of_its_ranks(tmp_path: Path) -> None:
    text = json.dumps(merged(made(), "[TP{:02d}] "))
    (tmp_path / "merged.trace.json").write_text(text[: len(text) * 3 // 4], encoding="utf-8")
    (run,) = read(tmp_path)
    assert len(run.traces) == 2
    assert all("ends in the middle of an event" in trace.damage[0] for trace in run.traces)


def test_a_merge_without_labels_is_refused_and_told_by_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "all.trace.json"
    path.write_text(json.dumps(merged(made(), "1{}")), encoding="utf-8")
    with pytest.raises(BadInputError, match="merges several ranks, or holds events twice") as caught:
        read(path)
    assert "of its" in str(caught.value)


def test_several_windows_in_one_folder_are_a_run_each(tmp_path: Path) -> None:
    put(tmp_path, "1700000000.5-TP-{}.trace.json", made(seed=1))
    put(tmp_path, "1700000999.5-TP-{}.trace.json", made(seed=2))
    first, second = read(tmp_path)
    assert [len(run.traces) for run in (first, second)] == [2, 2]
    assert "holds traces of 2 servers or windows" in first.warnings[0]
    assert kernels(first.traces[0]) != kernels(second.traces[0])


def test_traces_of_the_prefill_stage_beside_the_decode_stage_are_left_out_and_named(tmp_path: Path) -> None:
    put(tmp_path, "17-TP-{}-DECODE.trace.json", made(seed=1))
    put(tmp_path, "17-TP-{}-EXTEND.trace.json", made(seed=2))
    (run,) = read(tmp_path)
    assert [trace.source for trace in run.traces] == [f"17-TP-{rank}-DECODE.trace.json" for rank in (0, 1)]
    assert sum("prefill stage" in warning for warning in run.warnings) == 2


def test_a_prefill_trace_alone_is_read(tmp_path: Path) -> None:
    (run,) = read(put(tmp_path, "17-TP-{}-EXTEND.trace.json", made()))
    assert len(run.traces) == 2
