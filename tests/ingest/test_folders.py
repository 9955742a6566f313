"""Which files make a run, which are left out with a warning, and which cannot be of one run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.made_trace import Cycles, eagle_cycles
from toolkit.errors import BadInputError
from toolkit.ingest.folders import read_all
from toolkit.schema.recording import Recording

DECODE = (
    "[2026-02-26 14:47:{second:02d}] Decode batch, #running-req: 1, #token: 202, token usage: 0.00, "
    "accept len: 2.17, accept rate: 0.36, cuda graph: True, gen throughput (token/s): 79.28, #queue-req: 0\n"
)
LOG = "".join(DECODE.format(second=second) for second in range(5))
TABLE = "engine,num_steps,batch_size,tok_s\nsglang,0,1,90\n"
CLIENT = '{"schema": "toolkit.client/1", "batch_size": 1, "repeats": [{"seconds": 2, "output_tokens": 100}]}'
SPANS = '{"schema": "toolkit.spans/1", "tp_rank": 0}\n{"cycle": 1, "t_ns": 5, "num_steps": 3}\n'


def traces(folder: Path, ranks: int = 1) -> list[Path]:
    return eagle_cycles(Cycles(ranks), 3).write(folder)


def put(folder: Path, **contents: str) -> Path:
    """Write files; a name's last underscore is its dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / ".".join(name.rsplit("_", 1))).write_text(content, encoding="utf-8")
    return folder


def read(*paths: Path) -> list[Recording]:
    return read_all(paths)[0]


def refusal(*paths: Path) -> str:
    with pytest.raises(BadInputError) as caught:
        read_all(paths)[0]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_folder_is_one_recording_of_all_its_files(tmp_path: Path) -> None:
    folder = put(tmp_path / "run", server_log=LOG, client_json=CLIENT, run_json='{"schema": "toolkit.run/1"}')
    traces(folder, ranks=2)
    (only,) = read(folder)
    assert (only.name, [trace.tp_rank for trace in only.traces]) == ("run", [0, 1])
    assert only.log is not None
    assert len(only.log.lines) == 5
    assert only.client is not None
    assert only.warnings == ()


def test_a_folder_of_run_folders_is_a_recording_each_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "deep/er"):
        put(tmp_path / name, server_log=LOG)
    assert [recording.name for recording in read(tmp_path)] == ["a", "b", "er"]


def test_runs_of_one_name_are_told_apart_by_the_folder_above(tmp_path: Path) -> None:
    for place in ("one/b1", "two/b1", "two/b8"):
        put(tmp_path / place, server_log=LOG)
    assert [run.name for run in read(tmp_path)] == ["one/b1", "two/b1", "b8"]
    assert [run.name for run in read(tmp_path / "one", tmp_path / "two")] == ["one/b1", "two/b1", "b8"]


def test_a_run_given_twice_counts_once(tmp_path: Path) -> None:
    folder = put(tmp_path / "run", server_log=LOG)
    assert len(read(tmp_path, folder, folder / ".." / "run")) == 1


def test_single_traces_that_differ_in_the_rank_alone_are_one_run(tmp_path: Path) -> None:
    first, second = traces(tmp_path, ranks=2)
    log = put(tmp_path / "other", server_log=LOG) / "server.log"
    together, apart = read(first, log, second)
    assert [trace.tp_rank for trace in together.traces] == [0, 1]
    assert apart.name == "server.log"


def test_a_table_alone_is_a_recording_for_each_server_in_it(tmp_path: Path) -> None:
    folder = put(tmp_path, t_csv=TABLE + "vllm,0,1,80\nsglang,3,1,120\n")
    assert [(r.info.engine, len(r.measurements)) for r in read(folder)] == [("sglang", 2), ("vllm", 1)]


def test_stray_files_are_warned_about_and_not_refused(tmp_path: Path) -> None:
    folder = put(tmp_path, server_log=LOG, other_json='{"a": 1}', notes_txt="hello\n", empty_json="")
    put(folder, model_json='{"schema": "toolkit.cost-model/1"}', README_md="words")
    (only,) = read(folder)
    assert [Path(warning.split()[0]).name for warning in only.warnings] == [
        "empty.json",
        "model.json",
        "notes.txt",
        "other.json",
    ]
    assert "is empty" in only.warnings[0]


def test_many_stray_files_are_one_warning(tmp_path: Path) -> None:
    put(tmp_path, server_log=LOG, **{f"f{number}_txt": "hello\n" for number in range(50)})
    (only,) = read(tmp_path)
    assert len(only.warnings) == 1
    assert "50 files" in only.warnings[0]
    assert "(f0.txt, f1.txt, f10.txt and 47 more)" in only.warnings[0]


def test_a_merged_trace_beside_those_of_the_ranks_is_left_out_with_a_warning(tmp_path: Path) -> None:
    parts = [json.loads(path.read_text("utf-8")) for path in traces(tmp_path, ranks=2)]
    events = [
        {**event, "pid": f"[TP0{rank}] 1"} for rank, part in enumerate(parts) for event in part["traceEvents"]
    ]
    put(tmp_path, **{"merged.trace_json": json.dumps({"traceEvents": events})})
    (only,) = read(tmp_path)
    assert len(only.traces) == 2
    assert "left out" in only.warnings[0]
    assert "merges several ranks" in only.warnings[0]
    (alone,) = read(tmp_path / "merged.trace.json")
    assert [trace.tp_rank for trace in alone.traces] == [0, 1]


def test_an_unreadable_trace_is_left_out_only_where_something_else_can_be_read(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x_json='{"traceEvents": []}')
    assert "holds no readable event" in refusal(folder)
    put(folder, server_log=LOG)
    (only,) = read(folder)
    assert "holds no readable event" in only.warnings[0]


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (
            {},
            "holds no run: no trace, spans, log, client.json, calibration.json or measurements.csv in it; "
            "check the path",
        ),
        ({"server_log": ""}, "server.log is empty"),
        ({"run_json": '{"schema": "toolkit.run/1"}'}, "holds a run.json but nothing that was measured"),
        (
            {"inspect_json": '{"schema": "toolkit.inspect/1"}'},
            "inspect.json is what a toolkit command printed, no recording",
        ),
        (
            {"a_log": LOG, "b_log": LOG},
            "holds several server logs (a.log, b.log); make a run folder for each",
        ),
        ({"a_json": CLIENT, "b_json": CLIENT}, "holds several clients' results (a.json, b.json)"),
        ({"a_jsonl": SPANS, "b_jsonl": SPANS}, "holds two spans files of rank 0 (a.jsonl, b.jsonl)"),
        ({"server_log": LOG, "run_json": '{"schema": "toolkit.run/1"'}, "run.json is not valid JSON"),
        ({"t_csv": "num_steps,batch_size,tok_s\n"}, "holds no usable row (it has a header and no row)"),
        ({"s_jsonl": SPANS, "run_json": '{"schema": "toolkit.run/1", "num_steps": 5}'}, "mixes two servers"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_sentence(
    tmp_path: Path, contents: dict[str, str], said: str
) -> None:
    assert said in refusal(put(tmp_path / "run", **contents))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty; record it again or leave it out"),
        (
            '{"a": 1}',
            "is no trace, spans file, server log, client.json, calibration.json or measurements.csv; "
            "check the path",
        ),
        (
            '{"schema": "toolkit.cost-model/1"}',
            "is a fitted cost model, not a run; use it with toolkit predict",
        ),
        ('{"schema": "toolkit.inspect/1"}', "is what a toolkit command printed, not a run"),
        ('{"schema": "toolkit.run/1"}', "describes a run but holds no measurement; give its folder"),
    ],
)
def test_a_single_file_that_is_no_run_is_refused_in_one_sentence(
    tmp_path: Path, content: str, said: str
) -> None:
    assert said in refusal(put(tmp_path, file_json=content) / "file.json")


def test_two_traces_of_one_rank_beside_what_is_of_one_run_are_refused(tmp_path: Path) -> None:
    (path,) = traces(tmp_path)
    shutil.copy(path, tmp_path / "again-TP-0.trace.json")
    put(tmp_path, server_log=LOG)
    assert "holds two traces of rank 0 (again-TP-0.trace.json, made-TP-0.trace.json)" in refusal(tmp_path)


def test_a_folder_with_an_empty_run_beside_a_full_one_is_read(tmp_path: Path) -> None:
    put(tmp_path / "empty", run_json='{"schema": "toolkit.run/1"}')
    put(tmp_path / "full", server_log=LOG)
    empty, full = read(tmp_path)
    assert empty.warnings
    assert full.log is not None


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_links_that_loop_or_dangle_are_not_followed_and_those_to_nothing_are_named(tmp_path: Path) -> None:
    put(tmp_path / "run", server_log=LOG)
    for name, target in (
        ("up", tmp_path),
        ("self", tmp_path / "run" / "self"),
        ("gone", tmp_path / "nowhere"),
    ):
        os.symlink(target, tmp_path / "run" / name)
    (recording,) = read(tmp_path)
    assert recording.name == "run"
    assert [note.partition(" is a link to nothing")[0] for note in recording.warnings] == [
        str(tmp_path / "run" / name) for name in ("gone", "self")
    ]
    assert "run/self" in refusal(tmp_path / "run" / "self")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_linked_run_folder_is_read_as_the_run_that_it_names(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "run-7", server_log=LOG)
    given = tmp_path / "given"
    given.mkdir()
    os.symlink(tmp_path / "elsewhere" / "run-7", given / "run")
    os.symlink(tmp_path / "elsewhere" / "run-7", given / "same")
    (recording,) = read(given)
    assert recording.name == "run"
    assert recording.log is not None


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_folders_below_a_linked_one_are_named_and_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "far" / "below" / "run", server_log=LOG)
    given = put(tmp_path / "given" / "own", server_log=LOG).parent
    os.symlink(tmp_path / "far", given / "link")
    recordings, said = read_all([given])
    assert [recording.name for recording in recordings] == ["own"]
    assert any("behind a link" in sentence and "link/below" in sentence for sentence in said)


def left_out(*paths: Path) -> tuple[str, ...]:
    return read_all(paths)[1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "client.json",
            '{"seconds": 3}',
            "client.json has no toolkit schema where toolkit.client/1 is needed",
        ),
        ("client.json", '{"schema": "toolkit.client/1", ', "client.json is not valid JSON"),
        ("client.json", '{"schema": "toolkit.client/1", "batch_size": 0}', "batch_size is 0"),
        ("spans-TP-0.jsonl", '{"a": 1}\n', "spans-TP-0.jsonl has no toolkit schema where toolkit.spans/1"),
        ("spans-TP-0.jsonl", '{"schema": "toolkit.spans/9"}\n', "written by a newer toolkit"),
        ("trace-TP-0.trace.json.gz", "garbage", "its bytes are neither JSON nor gzip"),
        ("sweeps.csv", "sweep,batch_size\n1,2\n", "line 1 names only batch_size of the columns num_steps"),
        ("model.json", '{"schema": "toolkit.cost-model/1"}', "is a fitted cost model, no recording"),
        ("out.json", '{"schema": "toolkit.inspect/1"}', "is what a toolkit command printed"),
    ],
)
def test_a_file_of_a_run_that_cannot_be_used_is_left_out_with_its_reason(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    put(tmp_path, server_log=LOG)
    (tmp_path / name).write_text(content, encoding="utf-8")
    (only,) = read(tmp_path)
    (warning,) = only.warnings
    assert "left out" in warning
    assert said in warning
    assert str(tmp_path / name) in warning


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{bad", "run.json is not valid JSON"),
        ('{"acceptance": "simulated"}', "run.json has no toolkit schema where toolkit.run/1 is needed"),
        ("", "run.json is empty"),
        ("words", "run.json is not valid JSON"),
        ('{"schema": "toolkit.inspect/1"}', "run.json has schema 'toolkit.inspect/1'"),
    ],
)
def test_a_run_json_that_cannot_be_read_is_refused_because_all_else_rests_on_it(
    tmp_path: Path, content: str, said: str
) -> None:
    assert said in refusal(put(tmp_path, server_log=LOG, client_json=CLIENT, run_json=content))


def test_a_run_folder_that_cannot_be_read_is_left_out_by_name_below_a_folder_of_runs(tmp_path: Path) -> None:
    put(tmp_path / "good", server_log=LOG)
    put(tmp_path / "two", a_log=LOG, b_log=LOG)
    put(tmp_path / "broken", server_log=LOG, run_json="{bad")
    assert [recording.name for recording in read(tmp_path)] == ["good"]
    first, second = left_out(tmp_path)
    assert first.startswith(f"run folder {tmp_path / 'broken'} is left out: ")
    assert "run.json is not valid JSON" in first
    assert "holds several server logs" in second


def test_a_run_folder_given_by_its_own_path_is_refused_beside_others(tmp_path: Path) -> None:
    good = put(tmp_path / "good", server_log=LOG)
    broken = put(tmp_path / "broken", server_log=LOG, run_json="{bad")
    assert "run.json is not valid JSON" in refusal(good, broken)
    assert "run.json is not valid JSON" in refusal(broken, good)
    assert "holds no run" in refusal(good, put(tmp_path / "nothing"))


def test_a_folder_of_runs_none_of_which_can_be_read_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / name, server_log=LOG, run_json="{bad")
    said = refusal(tmp_path)
    assert "holds no run that can be read: 2 run folders cannot, the first because" in said
    assert str(tmp_path / "a") in said


def test_empty_folders_and_empty_logs_below_a_folder_of_runs_are_named(tmp_path: Path) -> None:
    put(tmp_path / "good", server_log=LOG)
    put(tmp_path / "hollow")
    put(tmp_path / "quiet", server_log="")
    for number in range(5):
        put(tmp_path / f"words{number}", a_txt="hello\n")
    said = left_out(tmp_path)
    assert f"1 folder empty: {tmp_path / 'hollow'}" in said
    assert f"6 folders without a run: {tmp_path / 'quiet'}" in said[1]
    assert "and 3 more" in said[1]
    assert said[2].startswith(f"{tmp_path / 'quiet' / 'server.log'} is empty")
    assert len(said) == 3


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="a folder that may not be listed")
def test_a_folder_that_may_not_be_listed_does_not_stop_the_others(tmp_path: Path) -> None:
    put(tmp_path / "good", server_log=LOG)
    put(tmp_path / "shut").chmod(0)
    assert "cannot be listed" in left_out(tmp_path)[0]
    (tmp_path / "shut").chmod(0o700)


def test_what_is_neither_file_nor_folder_is_named(tmp_path: Path) -> None:
    put(tmp_path, server_log=LOG)
    os.mkfifo(tmp_path / "pipe-TP-0.trace.json")
    (only,) = read(tmp_path)
    assert "pipe-TP-0.trace.json is neither a file nor a folder" in only.warnings[0]
