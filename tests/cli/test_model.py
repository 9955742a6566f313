"""`toolkit model fit` and `check` as a user runs them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]
HEADER = (
    "engine,hardware,target,tp_size,num_steps,topk,num_draft_tokens,batch_size,accept_length,tok_s,cycle_ms\n"
)
FIT_KEYS = {"schema", "model", "runs", "groups", "warnings"}
GROUP_KEYS = {
    "engine",
    "model",
    "gpu",
    "tp_size",
    "configurations",
    "terms",
    "holdout",
    "identifiability",
    "next_runs",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table of plain decoding at 10 ms and cycles of 11 + K ms."""
    path = tmp_path / "measurements.csv"
    rows = [f"SGLang,H200,m,1,{k},1,{k + 1},1,{1 + k / 2},,{11 + k}\n" for k in (1, 3, 5)]
    path.write_text(HEADER + "SGLang,H200,m,1,0,1,1,1,1,100,10\n" + "".join(rows))
    return path


def test_fit_writes_a_model_and_prints_one_object(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    done = toolkit_command("model", "fit", table, "-o", tmp_path / "m.json", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report.keys() >= FIT_KEYS
    assert report["schema"] == "toolkit.fit/1"
    (group,) = report["groups"]
    assert group.keys() >= GROUP_KEYS
    assert group["configurations"] == 4
    assert {"name", "value", "se", "unit", "identified", "source"} <= group["terms"][0].keys()
    assert json.loads((tmp_path / "m.json").read_text())["schema"] == "toolkit.cost-model/1"


def test_fit_keeps_an_existing_model_unless_told(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    assert toolkit_command("model", "fit", table).returncode == 0
    before = (tmp_path / "cost-model.json").read_bytes()
    again = toolkit_command("model", "fit", table)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert toolkit_command("model", "fit", table, "--overwrite").returncode == 0
    assert (tmp_path / "cost-model.json").read_bytes() == before


def test_fit_tables_are_80_columns_wide_and_plain(toolkit_command: CommandLine, table: Path) -> None:
    done = toolkit_command("model", "fit", table)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    assert "open: the runs do not determine it alone." in done.stdout
    assert re.search(r"draft_forward_us +open +- cycle in table\n", done.stdout)


def test_fit_of_a_table_without_cycles_says_what_is_missing(
    toolkit_command: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "measurements.csv"
    path.write_text(HEADER + "SGLang,H200,m,1,5,1,6,1,,71.3,\n")
    done = toolkit_command("model", "fit", path)
    assert done.returncode == 5
    assert "accept length" in done.stderr
    assert not (tmp_path / "cost-model.json").exists()


def test_check_compares_with_runs_the_fit_never_saw(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    toolkit_command("model", "fit", table, "-o", "m.json")
    new = tmp_path / "new.csv"
    new.write_text(HEADER + "SGLang,H200,m,1,4,1,5,1,2.5,,15\n")
    done = toolkit_command("model", "check", "m.json", new, "--json")
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(done.stdout)["configurations"]
    assert cell["predicted_ms"] == pytest.approx(15, rel=1e-3)
    assert cell["inside"]


def test_tables_tell_trees_apart_and_name_the_group(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    trees = tmp_path / "trees.csv"
    trees.write_text(HEADER + "SGLang,H200,m,1,3,1,4,1,2,,13\nSGLang,H200,m,1,3,4,8,1,2.2,,14\n")
    fitted = toolkit_command("model", "fit", table, trees, "-o", "trees.json").stdout
    assert ["run", "steps", "topk", "D", "batch"] in [line.split()[:5] for line in fitted.splitlines()]
    shown = toolkit_command("model", "check", "trees.json", trees, "--json")
    assert {one["group"] for one in json.loads(shown.stdout)["configurations"]} == {"sglang, m, H200, TP1"}


def test_the_table_of_a_check_is_whole_at_80_columns(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    toolkit_command("model", "fit", table, "-o", "m.json")
    new = tmp_path / "a-run-with-a-name-that-is-longer-than-any-column-of-a-table-can-be.csv"
    new.write_text(HEADER + "SGLang,H200,m,1,4,1,5,1,2.5,,15\n")
    shown = toolkit_command("model", "check", "m.json", new).stdout
    assert max(map(len, shown.splitlines())) <= 80
    head, _, row = shown.splitlines()[2:5]
    assert head.split() == ["run", "steps", "batch", "cycle", "ms", "predicted", "90", "%", "off", "inside"]
    assert row.split()[0].startswith("…") and row.split()[0].endswith("-can-be")
    assert row.split()[1:5] == ["4", "1", "15.00", "15.00"]
    assert row.split()[6:] == ["-0.0%", "yes"] or row.split()[6:] == ["+0.0%", "yes"]


def test_check_against_another_group_is_not_determined(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    toolkit_command("model", "fit", table, "-o", "m.json")
    new = tmp_path / "new.csv"
    new.write_text(HEADER + "SGLang,H200,m,2,4,1,5,1,2.5,,15\n")
    done = toolkit_command("model", "check", "m.json", new)
    assert done.returncode == 5
    assert "TP2" in done.stderr


def test_the_recorded_runs_fit_into_two_groups(
    toolkit_command: CommandLine, traces: Path, tmp_path: Path
) -> None:
    first_host = sorted(traces.glob("2026-11-29-sglang-*"))
    done = toolkit_command("model", "fit", *first_host, "-o", tmp_path / "m.json", "--json")
    assert done.returncode == 0, done.stderr
    groups = json.loads(done.stdout)["groups"]
    assert [group["tp_size"] for group in groups] == [1, 2]
    terms = {term["name"]: term for term in groups[1]["terms"]}
    assert terms["allreduce_us"]["value"] == pytest.approx(2.3, abs=0.3)
    assert terms["allreduce_us"]["se"] is None
    assert terms["host_cycle_us"]["identified"]
    verify = {term["name"]: term["value"] for term in groups[0]["terms"]}["verify_us"]
    assert 5000 < verify < 6500


def test_fit_refuses_a_folder_that_does_not_exist_and_makes_none(
    toolkit_command: CommandLine, table: Path, tmp_path: Path
) -> None:
    done = toolkit_command("model", "fit", table, "-o", tmp_path / "none" / "m.json")
    assert done.returncode == 3
    assert "there is no folder" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_fit_tables_say_what_their_columns_hold(toolkit_command: CommandLine, table: Path) -> None:
    shown = toolkit_command("model", "fit", table).stdout
    assert re.search(r"context mean ms", shown) and "mean ms: the mean cycle" in shown
    assert "-0.0%" not in shown and "\n\n\n" not in shown


def test_the_word_host_in_the_fit_table_is_explained_where_it_stands(
    toolkit_command: CommandLine, traces: Path
) -> None:
    runs = sorted(traces.glob("2026-11-29-sglang-*-tp2-*"))
    shown = " ".join(toolkit_command("model", "fit", *runs, "-o", "m.json").stdout.split())
    assert "spans host" in shown
    assert "host: the host set this cycle, so it is fitted as its floor" in shown


def test_a_model_that_is_not_there_is_named_with_no_option_that_check_lacks(
    toolkit_command: CommandLine, table: Path
) -> None:
    done = toolkit_command("model", "check", "none.json", table)
    assert done.returncode == 3
    assert "none.json does not exist; write it with" in done.stderr and "--model" not in done.stderr
