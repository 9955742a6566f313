"""`toolkit predict` as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]
HEADER = (
    "engine,hardware,target,tp_size,num_steps,topk,num_draft_tokens,batch_size,accept_length,tok_s,cycle_ms\n"
)
KEYS = {
    "schema",
    "inputs",
    "acceptance",
    "candidates",
    "baseline",
    "break_even_accept_length",
    "recommendation",
    "draft_tp",
    "warnings",
}
CANDIDATE_KEYS = {
    "num_steps",
    "num_draft_tokens",
    "topk",
    "draft_tp",
    "batch_size",
    "accept_length",
    "cycle_ms",
    "tok_s",
    "p_best",
    "extrapolated",
    "reachable",
}


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """Return a model of plain decoding at 10 ms and cycles of 11 + K ms."""
    folder = tmp_path_factory.mktemp("fitted")
    rows = [f"SGLang,H200,m,1,{k},1,{k + 1},1,{1 + k / 2},,{11 + k}\n" for k in (1, 3, 5)]
    (folder / "measurements.csv").write_text(HEADER + "SGLang,H200,m,1,0,1,1,1,1,100,10\n" + "".join(rows))
    command = [sys.executable, "-m", "toolkit", "model", "fit", "measurements.csv"]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(repository)}, check=True)
    return folder / "cost-model.json"


@pytest.fixture
def fitted(fitted_once: Path, tmp_path: Path) -> Path:
    """Return that model as the default model of the folder in which commands run."""
    return Path(shutil.copy(fitted_once, tmp_path))


def answer(command: CommandLine, *arguments: object) -> dict:  # type: ignore[type-arg]
    done = command("predict", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    made: dict = json.loads(done.stdout)  # type: ignore[type-arg]
    return made


def test_json_holds_the_keys_of_the_contract(toolkit_command: CommandLine, fitted: Path) -> None:
    made = answer(toolkit_command, "--accept-length", 2.5, "--at-num-draft-tokens", 6)
    assert made.keys() >= KEYS
    assert made["schema"] == "toolkit.forecast/1"
    assert all(candidate.keys() >= CANDIDATE_KEYS for candidate in made["candidates"])
    assert [candidate["num_steps"] for candidate in made["candidates"]] == list(range(9))


def test_the_table_is_80_columns_wide_and_plain(toolkit_command: CommandLine, fitted: Path) -> None:
    done = toolkit_command("predict", "--accept-length", 2.5, "--at-num-draft-tokens", 6)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    assert "cycle ms" in done.stdout


def test_a_single_step_count_owns_the_acceptance(toolkit_command: CommandLine, fitted: Path) -> None:
    made = answer(toolkit_command, "--accept-length", 2.5, "--steps", 3)
    assert made["candidates"][0]["accept_length"] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--accept-rate", 36), 2, "0.36"),
        (("--accept-rate", 0.4, "--accept-length", 2), 2, "one of them"),
        (("--accept-length", 0.5), 2, "below 1"),
        (("--steps", "8:1", "--accept-length", 2), 2, "rise"),
        (("--steps", "x", "--accept-length", 2), 2, "step count"),
        (("--draft-tp", "0", "--accept-length", 2), 2, "at least 1"),
        (("--tp-size", 4, "--accept-length", 2), 5, "TP1"),
        (("--accept-length", 2, "--allreduce-scale", 0.5), 5, "all-reduce"),
        (("--accept-length", 2, "--allreduce-us", "nan"), 2, "no number"),
        (("--accept-length", 2, "--allreduce-scale", "inf"), 2, "no number"),
        (("--accept-rate", 0.4, "--at-num-draft-tokens", 100000), 2, "no engine verifies"),
        (("--accept-by-position", "0.5,0.6"), 2, "rises"),
        (("--accept-by-position", "0.5,nan"), 2, "not between 0 and 1"),
        (("--accept-by-position", ",".join(["0.5"] * 500)), 2, "500 positions"),
        (("--accept-by-position", "x" * 5000), 2, "xxx...'"),
        (("--accept-by-position", "0.5,0.4,0.3", "--at-num-draft-tokens", 3), 2, "leave 2"),
        (("--accept-length", 2, "--current-steps", 100000), 2, "64"),
        (("--accept-length", 2, "--batch-size", 10**14), 2, "10000000"),
        (("--accept-length", 2, "--scenarios", "none.csv"), 3, "none.csv"),
        (("--model", "none.json", "--accept-length", 2), 3, "model fit"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence_and_an_exit_code(
    toolkit_command: CommandLine, fitted: Path, arguments: tuple[object, ...], code: int, says: str
) -> None:
    done = toolkit_command("predict", *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_scenarios_are_answered_row_by_row(
    toolkit_command: CommandLine, fitted: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("num_steps,topk,num_draft_tokens,batch_size\n5,1,6,1\n2,1,3,1\n5,1,6,1\n")
    made = answer(toolkit_command, "--scenarios", rows, "--accept-length", 2.5, "--at-num-draft-tokens", 6)
    assert [candidate["num_steps"] for candidate in made["candidates"]] == [5, 2, 5]
    assert made["candidates"][1]["cycle_ms"]["value"] == pytest.approx(13, rel=1e-3)
    shown = toolkit_command(
        "predict", "--scenarios", rows, "--accept-length", 2.5, "--at-num-draft-tokens", 6
    )
    assert shown.returncode == 0, shown.stderr


def test_flags_are_written_and_an_existing_file_is_kept(
    toolkit_command: CommandLine, fitted: Path, tmp_path: Path
) -> None:
    asked = ("predict", "--accept-by-position", "0.9,0.8,0.7,0.6,0.5", "--emit", "sglang-flags", "f.txt")
    assert toolkit_command(*asked).returncode == 0
    text = (tmp_path / "f.txt").read_text()
    assert text.startswith("--speculative-num-steps ")
    assert toolkit_command(*asked).returncode == 2
    assert (tmp_path / "f.txt").read_text() == text
    assert toolkit_command(*asked, "--overwrite").returncode == 0


def test_an_adaptive_schedule_has_a_step_count_for_each_batch(
    toolkit_command: CommandLine, fitted: Path, tmp_path: Path
) -> None:
    done = toolkit_command(
        "predict", "--accept-by-position", "0.9,0.8,0.7", "--emit", "sglang-adaptive", "a.json"
    )
    assert done.returncode == 0, done.stderr
    tiers = json.loads((tmp_path / "a.json").read_text())
    assert list(tiers) == ["1"]
    (steps,) = tiers["1"]["candidate_steps"]
    assert steps > 0
    assert f"--speculative-num-steps {steps}" in done.stderr


@pytest.mark.parametrize(("version", "scheduled"), [("0.33.0", True), ("0.22.0", False)])
def test_a_vllm_that_takes_a_schedule_gets_steps_for_each_batch(
    toolkit_command: CommandLine, tmp_path: Path, version: str, scheduled: bool
) -> None:
    rows = [f"vLLM,H200,m,1,0,1,1,{batch},1,,{ms}\n" for batch, ms in ((1, 10), (16, 12))]
    rows += [f"vLLM,H200,m,1,{k},1,{k + 1},1,{1 + k / 2},,{10 + k}\n" for k in (1, 3, 5)]
    rows += [f"vLLM,H200,m,1,{k},1,{k + 1},16,{1 + k / 2},,{14 + 9 * k}\n" for k in (1, 3, 5)]
    (tmp_path / "measurements.csv").write_text(HEADER + "".join(rows))
    assert toolkit_command("model", "fit", "measurements.csv").returncode == 0
    model = json.loads((tmp_path / "cost-model.json").read_text())
    model["groups"][0]["engine_versions"] = [version]
    (tmp_path / "cost-model.json").write_text(json.dumps(model))
    asked = ("--accept-by-position", "0.8,0.6,0.5,0.4,0.3", "--batch-size", 1, "--emit", "vllm", "v.txt")
    done = toolkit_command("predict", *asked)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "v.txt").read_text()
    assert ("per_batch_size" in text) == scheduled, text
    if scheduled:
        assert "[[1, 1, 5], [2, 16, 0]]" in text


def test_the_form_of_another_engine_is_refused(toolkit_command: CommandLine, fitted: Path) -> None:
    done = toolkit_command("predict", "--accept-by-position", "0.9,0.8", "--emit", "vllm", "v.txt")
    assert done.returncode == 2
    assert "sglang" in done.stderr


def test_predicting_loads_no_heavy_library(fitted: Path, repository: Path) -> None:
    code = (
        "import sys\nfrom toolkit.cli import main\n"
        f"code = main(['predict', '--model', {str(fitted)!r}, '--accept-by-position', '0.5,0.2', '--json'])\n"
        "heavy = {'scipy', 'pandas', 'matplotlib', 'torch'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=repository, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_recorded_runs_answer_for_each_size(
    toolkit_command: CommandLine, traces: Path, tmp_path: Path
) -> None:
    toolkit_command("model", "fit", *sorted(traces.glob("2026-11-29-sglang-*")), "-o", "m.json")
    both = toolkit_command("predict", "--model", "m.json", "--accept-rate", 0.36)
    assert both.returncode == 5
    assert "TP1" in both.stderr and "TP2" in both.stderr
    one = answer(toolkit_command, "--model", "m.json", "--accept-rate", 0.36, "--tp-size", 1)
    two = answer(toolkit_command, "--model", "m.json", "--accept-rate", 0.36, "--tp-size", 2)
    assert one["acceptance"]["accept_length"] == pytest.approx(2.8)
    assert two["acceptance"]["accept_length"] == pytest.approx(2.08)
    assert one["recommendation"]["action"] == "use"
    assert two["recommendation"]["action"] != "use"
    three = two["candidates"][3]
    assert 6.5 < three["cycle_ms"]["value"] < 7.9


def test_what_the_fit_warned_of_is_in_the_json_and_not_printed_again(
    toolkit_command: CommandLine, fitted: Path
) -> None:
    done = toolkit_command("predict", "--accept-length", 2.5, "--at-num-draft-tokens", 6, "--json")
    assert any("no configuration was run twice" in text for text in json.loads(done.stdout)["warnings"])
    assert "run twice" not in done.stderr


def test_a_file_in_a_folder_that_does_not_exist_is_refused_and_no_folder_is_made(
    toolkit_command: CommandLine, fitted: Path, tmp_path: Path
) -> None:
    done = toolkit_command(
        "predict", "--accept-by-position", "0.9,0.8", "--emit", "sglang-flags", tmp_path / "none" / "f.txt"
    )
    assert done.returncode == 3
    assert "there is no folder" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_gpu_chooses_among_groups_that_differ_in_nothing_else(
    toolkit_command: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "measurements.csv"
    rows = [f"SGLang,{gpu},m,1,0,1,1,1,1,100,{ms}\n" for gpu, ms in (("H200", 10), ("A100", 20))]
    path.write_text(HEADER + "".join(rows))
    assert toolkit_command("model", "fit", path).returncode == 0
    asked = ("--accept-length", 1.5, "--at-num-draft-tokens", 2, "--steps", 0)
    both = toolkit_command("predict", *asked)
    assert both.returncode == 5 and "choose with --gpu" in both.stderr
    made = answer(toolkit_command, *asked, "--gpu", "a100")
    assert made["candidates"][0]["cycle_ms"]["value"] == pytest.approx(20)
