"""`toolkit inspect` as it is typed: one JSON object, warnings on stderr, text that people read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inspecting import TP2, VLLM, Inspect, put
from toolkit.cli.warning_lines import print_warnings

Golden = Callable[[str, str], None]


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
