"""The file for the Perfetto viewer: valid, complete, and without slices that a viewer would drop."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.made_trace import WIRE_US, Cycles, Engine, eagle_cycles
from toolkit.api import read_runs, write_perfetto
from toolkit.cli import main
from toolkit.errors import BadInputError, UsageError
from toolkit.report.perfetto.tracks import lanes, us_text

Event = dict[str, Any]


def written(paths: list[Path], out: Path) -> list[Event]:
    write_perfetto(read_runs(paths), out)
    raw = gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes()
    events: list[Event] = json.loads(raw)["traceEvents"]
    return events


def titles(events: list[Event], kind: str) -> dict[Any, str]:
    """Return the names of processes, or of threads by process and thread."""
    return {
        (event["pid"], event["tid"]) if kind == "thread_name" else event["pid"]: event["args"]["name"]
        for event in events
        if event["name"] == kind
    }


def by_track(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def on(events: list[Event], title: str) -> list[Event]:
    """Return the slices of the tracks whose title begins so."""
    names = titles(events, "thread_name")
    return [one for key, track in by_track(events).items() if names[key].startswith(title) for one in track]


def assert_drawable(events: list[Event]) -> None:
    names = titles(events, "thread_name")
    for key, track in by_track(events).items():
        assert key in names
        reached = -1.0
        for event in sorted(track, key=lambda one: one["ts"]):
            assert 0 <= event["dur"] < 60e6
            assert 0 <= event["ts"] < 3600e6
            assert event["ts"] > reached, f"slices of {names[key]} overlap"
            reached = event["ts"] + event["dur"]


def kernels_of(path: Path) -> Counter[tuple[str, float]]:
    raw = path.read_bytes()
    trace = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return Counter(
        (event["name"], round(float(event["dur"]), 3))
        for event in trace["traceEvents"]
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    )


@pytest.mark.parametrize(
    "run", ["*29-sglang-llama8b-dummy-tp2-k3-b1", "*tp4-k3-b1", "*vllm-llama8b-dummy-tp1-k3-b1"]
)
def test_every_kernel_of_every_rank_of_a_recorded_run_is_there_and_can_be_drawn(
    traces: Path, tmp_path: Path, run: str
) -> None:
    folder = next(traces.glob(run))
    events = written([folder], tmp_path / "out.json.gz")
    assert_drawable(events)
    ranks = titles(events, "process_name")
    names = titles(events, "thread_name")
    for number, path in enumerate(sorted(folder.glob("trace-TP-*")), start=1):
        assert ranks[number] == f"rank {number - 1}, {folder.name}"
        drawn = Counter(
            (one["name"], round(one["dur"], 3))
            for key, track in by_track(events).items()
            if key[0] == number and names[key].startswith("kernels of stream")
            for one in track
        )
        assert drawn == kernels_of(path)


def test_ranks_are_on_one_clock_so_that_collectives_end_together(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(ranks=3, clocks_us=100, drift_ppm=5), 10)
    events = written(made.write(tmp_path), tmp_path / "out.json")
    ends = defaultdict(list)
    for one in on(events, "collectives"):
        ends[one["pid"]].append(one["ts"] + one["dur"])
    first, *others = (np.sort(values) for values in ends.values())
    for other in others:
        assert np.abs(other - first).max() < 0.05


def test_wire_and_wait_are_those_that_were_made(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(ranks=2, slow=0), 6)
    events = written(made.write(tmp_path), tmp_path / "out.json")
    assert {round(one["dur"], 2) for one in on(events, "wire")} == {WIRE_US}
    waited = sum(one["dur"] for one in on(events, "wait") if one["pid"] == 2)
    truth = sum(by_rank[1] for phase in made.waits.values() for by_rank in phase)
    assert waited == pytest.approx(truth, rel=0.02)
    told = [one["args"] for one in on(events, "collectives")]
    assert {round(one["wire_us"], 2) for one in told} == {WIRE_US}
    assert {one["phase"] for one in told} == {"draft", "verify", "draft_extend"}


def test_phases_and_draft_forwards_have_tracks_with_their_names(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(), 5, Engine(steps=4))
    events = written(made.write(tmp_path), tmp_path / "out.json")
    assert {one["name"] for one in on(events, "phases")} == {"draft", "verify", "sample", "draft_extend"}
    assert Counter(one["name"] for one in on(events, "draft forwards")) == {
        f"draft forward {number}": 5 for number in (1, 2, 3)
    }
    assert {one["name"] for one in on(events, "cycles")} == {"cycle, batch 1"}
    assert len(on(events, "cycles")) == 5


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=40))
def test_no_two_slices_of_a_row_overlap(slices: list[tuple[int, int]]) -> None:
    start = np.array([one[0] for one in slices], dtype=np.int64)
    duration = np.array([one[1] for one in slices], dtype=np.int64)
    order, row = lanes(start, duration)
    assert sorted(order.tolist()) == list(range(len(slices)))
    for number in set(row.tolist()):
        mine = order[row == number]
        assert (start[mine][1:] > (start + duration)[mine][:-1]).all()


def test_times_keep_every_digit() -> None:
    assert [us_text(ns) for ns in (0, 1, 1_000, -1_001, 1_234_567)] == [
        *("0.000", "0.001", "1.000", "-1.001", "1234.567"),
    ]


def test_an_existing_file_is_kept_and_a_run_without_kernels_writes_none(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = eagle_cycles(Cycles(), 4).write(tmp_path)
    out = tmp_path / "out.json"
    out.write_text("mine")
    assert main(["inspect", str(traces[0]), "--perfetto", str(out)]) == 2
    assert out.read_text() == "mine"
    assert main(["inspect", str(traces[0]), "--perfetto", str(out), "--overwrite"]) == 0
    assert json.loads(out.read_text())["traceEvents"]
    with pytest.raises(UsageError):
        write_perfetto(read_runs([traces[0]]), out)
    with pytest.raises(BadInputError, match="no run has a trace"):
        write_perfetto(read_runs([data / "kimi-k2.5-tp8"]), tmp_path / "none.json")
    assert main(["inspect", str(traces[0]), "--perfetto", str(tmp_path / "no" / "folder.json")]) == 3
    capsys.readouterr()
