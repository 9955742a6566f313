"""`toolkit inspect` of wrong, cut and mixed files: sentences instead of tracebacks, no silent loss."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.inspecting import VLLM, Inspect, made, put, rewritten, without_kernels
from toolkit.api import read_runs


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("server.log", "", "server.log is empty"),
        (
            "bin",
            bytes(range(256)) * 40,
            "is no trace, spans file, server log, client.json, calibration.json or measurements.csv",
        ),
        ("x.csv", "name,colour\n1,2\n", "line 1 names none of the columns num_steps"),
        ("client.json", '{"a": 1}', "has no toolkit schema where toolkit.client/1 is needed"),
        (
            "x.json",
            '{"a": 1}',
            "is no trace, spans file, server log, client.json, calibration.json or measurements.csv",
        ),
        ("x.json", '{"schema": "toolkit.cost-model/1"}', "is a fitted cost model, not a run"),
        ("x.json", '{"schema": "toolkit.inspect/1"}', "is what a toolkit command printed, not a run"),
        ("a-TP-0.trace.json", "{}", "it has no traceEvents"),
        (
            "a-TP-0.trace.json.gz",
            gzip.compress(b"{}" * 99, mtime=0)[:8],
            "its gzip stream holds nothing that can be read",
        ),
    ],
)
def test_a_file_that_is_no_run_ends_with_3(
    inspect: Inspect, tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    put(tmp_path, name, content)
    done = inspect(tmp_path / name)
    assert done.code == 3
    assert said in done.err
    assert name in done.err


def test_an_empty_folder_and_a_path_that_is_not_there_end_with_3(inspect: Inspect, tmp_path: Path) -> None:
    assert inspect(tmp_path).code == 3
    done = inspect(tmp_path / "nothing")
    assert (done.code, "does not exist" in done.err) == (3, True)


def test_a_trace_without_kernels_ends_with_3_alone_and_is_a_failed_check_beside_a_log(
    inspect: Inspect, tmp_path: Path, log: str
) -> None:
    for path in made(tmp_path, ranks=2):
        rewritten(path, without_kernels)
    alone = inspect(tmp_path)
    assert (alone.code, "has no GPU kernel in its trace" in alone.err) == (3, True)
    put(tmp_path, "server.log", log)
    beside = inspect(tmp_path, "--json")
    assert beside.code == 0
    assert "no kernel on rank 0, 1" in beside.err
    (run,) = json.loads(beside.out)["runs"]
    assert {key: run["health"][0][key] for key in ("check", "ok")} == {
        "check": "kernels captured",
        "ok": False,
    }
    assert run["configurations"][0]["sources"] == ["log"]


def test_two_servers_in_one_folder_end_with_3(inspect: Inspect, tmp_path: Path, log: str) -> None:
    mixed = log + log.replace("tp_size=2", "tp_size=4")
    assert "start-up lines of two servers" in inspect(put(tmp_path / "a", "server.log", mixed)).err
    both = log + VLLM.format(second=1, prompt=0.0, tok_s=100.0)
    assert "the logs of two servers" in inspect(put(tmp_path / "b", "server.log", both)).err
    put(put(tmp_path / "c", "one.log", log), "two.log", log)
    assert "several server logs" in inspect(tmp_path / "c").err
    run_json = '{"schema": "toolkit.run/1", "num_steps": 7}'
    put(put(tmp_path / "d", "server.log", log), "run.json", run_json)
    assert "num_steps is 7 in run.json and 3 in server.log" in inspect(tmp_path / "d").err
    first, second = made(tmp_path / "e", ranks=2)
    rewritten(second, lambda trace: trace["distributedInfo"].update(world_size=4))
    assert "mixes traces of two servers" in inspect(tmp_path / "e").err
    shutil.copy(first, second.with_name("more-TP-0.trace.json"))
    second.unlink()
    put(tmp_path / "e", "server.log", log)
    assert "two traces of rank 0" in inspect(tmp_path / "e").err


def test_a_missing_rank_is_named_and_the_others_are_given(inspect: Inspect, tmp_path: Path) -> None:
    made(tmp_path, ranks=4)[2].unlink()
    done = inspect(tmp_path, "--json")
    assert done.code == 0
    assert "rank 2 of 4 is missing" in done.err
    (cell,) = json.loads(done.out)["runs"][0]["configurations"]
    assert [rank["tp_rank"] for rank in cell["ranks"]] == [0, 1, 3]


def test_a_damaged_trace_gives_what_was_read_and_a_warning(inspect: Inspect, tmp_path: Path) -> None:
    (path,) = made(tmp_path)
    text = path.read_bytes()
    path.write_bytes(text[: len(text) * 2 // 3])
    done = inspect(tmp_path, "--json")
    assert done.code == 0
    assert "the trace ends in the middle of an event" in done.err
    assert json.loads(done.out)["runs"][0]["num_steps"] == 3
    (line,) = [line for line in inspect(path).err.splitlines() if "middle of an event" in line]
    assert line.count(path.name) == 1, "a run of one file bears its file's name, which is said once"


def test_ids_that_are_all_alike_are_warned_about(inspect: Inspect, tmp_path: Path) -> None:
    (path,) = made(tmp_path)
    rewritten(path, lambda trace: [event["args"].update(correlation=5) for event in trace["traceEvents"]])
    assert "calls share their correlation id" in inspect(tmp_path).err


def test_an_accept_length_above_the_draft_tokens_is_warned_about(
    inspect: Inspect, tmp_path: Path, log: str
) -> None:
    assert "accept len: 2.1" in log
    done = inspect(put(tmp_path, "server.log", log.replace("accept len: 2.1", "accept len: 9.1")))
    assert done.code == 0
    assert "is impossible: a cycle commits 1 to 4 tokens" in done.err


def test_one_unreadable_run_below_a_folder_of_runs_is_a_warning_and_none_readable_ends_with_3(
    inspect: Inspect, tmp_path: Path, log: str
) -> None:
    put(tmp_path / "good", "server.log", log)
    broken = put(put(tmp_path / "broken", "server.log", log), "run.json", "{bad")
    done = inspect(tmp_path, "--json")
    assert done.code == 0
    assert f"toolkit: warning: run folder {broken} is left out: " in done.err
    assert [run["run"] for run in json.loads(done.out)["runs"]] == ["good"]
    assert inspect(broken).code == 3
    shutil.rmtree(tmp_path / "good")
    assert inspect(tmp_path).code == 3


def test_what_a_notebook_reads_tells_what_was_left_out_as_a_warning(tmp_path: Path, log: str) -> None:
    put(tmp_path / "good", "server.log", log)
    put(put(tmp_path / "broken", "server.log", log), "run.json", "{bad")
    with pytest.warns(UserWarning, match=r"broken is left out: .*run\.json is not valid JSON"):
        recordings = read_runs([tmp_path])
    assert [recording.name for recording in recordings] == ["good"]


def test_three_thousand_small_files_give_one_warning(inspect: Inspect, tmp_path: Path, log: str) -> None:
    for number in range(3000):
        put(tmp_path, f"f{number}.txt", "hello\n")
    put(tmp_path, "server.log", log)
    done = inspect(tmp_path)
    assert (done.code, done.err.count("\n")) == (0, 1)


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_no_text_does_not_break_the_json(inspect: Inspect, tmp_path: Path, log: str) -> None:
    try:
        folder = put(tmp_path / os.fsdecode(b"caf\xe9"), "server.log", log)
    except OSError:
        pytest.skip("this file system takes text alone")
    assert json.loads(inspect(folder, "--json").out)["runs"][0]["run"] == "caf?"
