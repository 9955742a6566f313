"""`toolkit inspect` as it is typed: one JSON object, warnings on stderr, sentences instead of tracebacks."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.made_trace import Cycles, Engine, eagle_cycles
from toolkit.api import read_runs
from toolkit.cli import main
from toolkit.cli.warning_lines import print_warnings

Golden = Callable[[str, str], None]
TP2 = "2026-11-29-sglang-llama8b-dummy-tp2-k3-b1"
VLLM = (
    "INFO 06-06 14:20:{second:02d} [loggers.py:116] Engine 000: Avg prompt throughput: {prompt} tokens/s, "
    "Avg generation throughput: {tok_s} tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 9.5%, Prefix cache hit rate: 0.5%\n"
    "INFO 06-06 14:20:{second:02d} [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.50, "
    "Accepted throughput: 60.00 tokens/s, Drafted throughput: 120.00 tokens/s, Accepted: 600 tokens, "
    "Drafted: 1200 tokens, Per-position acceptance rate: 0.800, 0.500, 0.200, "
    "Avg Draft acceptance rate: 50.0%\n"
)


class Done(NamedTuple):
    code: int
    out: str
    err: str


Inspect = Callable[..., Done]


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str]) -> Inspect:
    """Return a function that runs `toolkit inspect` in this process and checks how it ends."""

    def run(*arguments: object) -> Done:
        code = main(["inspect", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "this is a bug" not in err
        if code:
            assert err.startswith("toolkit: ")
            assert err.count("\n") == 1  # one sentence
            assert out == ""
        return Done(code, out, err)

    return run


@pytest.fixture
def log(traces: Path) -> str:
    """Return the server log of a recorded run (SGLang, TP 2, 3 steps)."""
    return (traces / TP2 / "server.log").read_text(encoding="utf-8")


def made(folder: Path, ranks: int = 1, **how: Any) -> list[Path]:
    return eagle_cycles(Cycles(ranks), 6, Engine()).write(folder, **how)


def put(folder: Path, name: str, content: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    trace = json.loads(path.read_text(encoding="utf-8"))
    change(trace)
    path.write_text(json.dumps(trace), encoding="utf-8")


def without_kernels(trace: dict[str, Any]) -> None:
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event["cat"] != "kernel"]


def test_json_is_one_object_with_the_keys_of_the_contract_schema_first(
    inspect: Inspect, traces: Path
) -> None:
    done = inspect(traces / TP2, "--json")
    assert done.code == 0
    assert done.out.count("\n") == 1
    found = json.loads(done.out)
    assert list(found) == ["schema", "warnings", "runs"]
    assert found["schema"] == "toolkit.inspect/1"
    (run,) = found["runs"]
    assert {
        *("run", "engine", "engine_version", "tp_size", "draft_tp", "num_steps", "topk", "num_draft_tokens"),
        *("sources", "acceptance_kind", "configurations", "health"),
    } <= set(run)
    (cell,) = run["configurations"]
    assert {
        *("batch_size", "padded_batch_size", "num_steps", "context_tokens", "cycles", "sources", "cycle_us"),
        *("ranks", "draft_steps", "collectives", "bound", "acceptance", "throughput_tok_s"),
        "unattributed_fraction",
    } <= set(cell)
    assert {"median", "p10", "p90"} <= set(cell["cycle_us"])
    assert {"tp_rank", "gpu_busy_fraction", "phases"} <= set(cell["ranks"][0])
    phases = cell["ranks"][0]["phases"]
    assert set(phases) == {"draft", "verify", "draft_extend", "sample", "gap"}
    assert {"graph_us", "busy_us", "stage_us", "kernels"} <= set(phases["draft"])
    assert {"forward", "median_us"} <= set(cell["draft_steps"][0])
    assert {
        *("phase", "op", "algorithm", "group_size", "message_bytes", "per_cycle", "wire_us"),
        *("wait_us_per_cycle", "first_wait_us", "matched_fraction"),
    } <= set(cell["collectives"][0])
    assert {"accept_length", "accept_by_position", "cycles", "requests", "se"} <= set(cell["acceptance"])
    assert {"measured", "from_cycle"} <= set(cell["throughput_tok_s"])
    assert {"check", "ok", "detail"} <= set(run["health"][0])


def test_warnings_are_in_the_json_and_on_stderr_only(inspect: Inspect, traces: Path) -> None:
    done = inspect(traces / TP2, "--json")
    warnings = json.loads(done.out)["warnings"]
    assert [f"toolkit: warning: {warning}" for warning in warnings] == done.err.splitlines()
    assert warnings


def test_the_installed_command_prints_the_same_in_a_process_of_its_own(
    toolkit_command: Callable[..., Any], inspect: Inspect, traces: Path
) -> None:
    process = toolkit_command("inspect", traces / TP2, "--json")
    assert process.returncode == 0
    assert process.stdout == inspect(traces / TP2, "--json").out


def test_text_of_the_recorded_tp2_run(inspect: Inspect, traces: Path, golden: Golden) -> None:
    done = inspect(traces / TP2)
    assert max(map(len, done.out.splitlines())) <= 80
    golden("inspect-tp2.txt", done.out)


def test_text_of_the_founding_run(inspect: Inspect, data: Path, golden: Golden) -> None:
    done = inspect(data / "kimi-k2.5-tp8")
    assert max(map(len, done.out.splitlines())) <= 80
    golden("inspect-founding.txt", done.out)


def test_several_runs_end_with_their_number_and_how_many_failed_a_check(
    inspect: Inspect, traces: Path, data: Path
) -> None:
    done = inspect(traces / TP2, data / "kimi-k2.5-tp8")
    assert done.out.endswith("passed\n\n2 runs, 1 with a failed check (marked !)\n")
    assert "runs," not in inspect(data / "kimi-k2.5-tp8").out


def test_text_counts_one_of_a_thing_as_one_and_has_no_two_blank_lines(
    inspect: Inspect, tmp_path: Path
) -> None:
    line = (
        "[2026-02-26 14:47:05] Decode batch, #running-req: 1, #token: 202, token usage: 0.00, "
        "accept len: 1.50, accept rate: 0.75, cuda graph: True, gen throughput (token/s): 79.28, "
        "#queue-req: 0\n"
    )
    put(put(tmp_path / "a", "server.log", line), "t.csv", "num_steps,batch_size,tok_s\n0,1,90\n")
    put(tmp_path / "a", "run.json", '{"schema": "toolkit.run/1", "num_steps": 1, "num_draft_tokens": 2}')
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    done = inspect(tmp_path)
    assert "\n1 step, 2 draft tokens, batch 1" in done.out
    assert "median cycle 18.92 ms" in done.out
    assert "79.3 tok/s from the mean cycle" in done.out
    assert "\n\n\n" not in done.out


def test_warnings_are_wrapped_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    sentence = "a folder is left out " * 10
    print_warnings([sentence])
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    print_warnings([sentence])
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines) == f"toolkit: warning: {sentence}".strip()


def test_lines_are_one_object_each(inspect: Inspect, data: Path) -> None:
    done = inspect(data / "kimi-k2.5-tp8" / "server.log", "--lines")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [list(line) for line in lines] == [
        [
            "engine",
            "kind",
            "running_req",
            "accept_length",
            "accept_rate",
            "tok_s",
            "graph",
            "timestamp",
            "ranks",
            "truncated",
        ]
    ] * 3
    assert [(line["accept_length"], line["tok_s"], line["truncated"]) for line in lines] == [
        (2.17, 79.28, False),
        (1.65, 58.44, False),
        (1.82, None, True),
    ]
    assert lines[0]["ranks"] == {"tp": 0, "dp": None, "ep": None, "pp": None}


@pytest.mark.parametrize("arguments", [["{}", "--lines"], ["{}/a.log", "{}/b.log", "--lines"]])
def test_lines_of_a_folder_or_of_two_files_are_a_usage_error(
    inspect: Inspect, tmp_path: Path, log: str, arguments: list[str]
) -> None:
    put(put(tmp_path, "a.log", log), "b.log", log)
    done = inspect(*(argument.format(tmp_path) for argument in arguments))
    assert (done.code, done.err) == (
        2,
        "toolkit: --lines reads one server log; give the path of the log file alone\n",
    )


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


def test_a_run_of_vllm_joins_its_two_kinds_of_lines(inspect: Inspect, tmp_path: Path) -> None:
    windows = [(10, 31.9, 60.0), (20, 0.0, 100.0), (30, 0.0, 100.0)]
    text = "".join(
        VLLM.format(second=second, prompt=prompt, tok_s=tok_s) for second, prompt, tok_s in windows
    )
    done = inspect(put(tmp_path, "server.log", text), "--json")
    (run,) = json.loads(done.out)["runs"]
    (cell,) = run["configurations"]
    assert (run["engine"], run["num_draft_tokens"]) == ("vllm", 4)
    assert cell["cycle_us"]["median"] == 25_000  # 2.5 tokens at 100 a second; the prefill's window is out
    assert cell["acceptance"]["accept_by_position"] == [0.8, 0.5, 0.2]
    assert cell["throughput_tok_s"]["measured"] == 100.0


def test_every_recorded_run_is_read_without_a_failure(inspect: Inspect, traces: Path) -> None:
    done = inspect(traces, "--json")
    assert done.code == 0
    runs = json.loads(done.out)["runs"]
    assert len(runs) >= 9
    assert all(run["configurations"] for run in runs)


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


def test_three_thousand_small_files_take_a_moment_and_one_warning(
    inspect: Inspect, tmp_path: Path, log: str
) -> None:
    for number in range(3000):
        put(tmp_path, f"f{number}.txt", "hello\n")
    put(tmp_path, "server.log", log)
    began = time.perf_counter()
    done = inspect(tmp_path)
    assert time.perf_counter() - began < 20
    assert (done.code, done.err.count("\n")) == (0, 1)


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_no_text_does_not_break_the_json(inspect: Inspect, tmp_path: Path, log: str) -> None:
    try:
        folder = put(tmp_path / os.fsdecode(b"caf\xe9"), "server.log", log)
    except OSError:
        pytest.skip("this file system takes text alone")
    assert json.loads(inspect(folder, "--json").out)["runs"][0]["run"] == "caf?"
