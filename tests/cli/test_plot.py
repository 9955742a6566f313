"""`--plot DIR`: figures beside what is printed, said on stderr, existing ones kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

import toolkit.live.calibrating
from tests.model.made_calibration import Host, calibration
from toolkit.cli import main
from toolkit.schema.calibration import MemoryBandwidth

TABLE = """engine,hardware,target,tp_size,num_steps,topk,num_draft_tokens,batch_size,accept_length,cycle_ms
sglang,H200,m,1,0,1,1,1,,2.0
sglang,H200,m,1,1,1,2,1,1.5,3.0
sglang,H200,m,1,2,1,3,1,1.8,3.5
sglang,H200,m,1,4,1,5,1,2.2,4.5
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line in a folder that holds measurements.csv."""
    monkeypatch.chdir(tmp_path)
    Path("measurements.csv").write_text(TABLE, encoding="utf-8")

    def run(*arguments: str) -> Done:
        code = main(arguments)
        return Done(code, *capsys.readouterr())

    return run


def drawn(folder: str = "figures") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir()) if Path(folder).exists() else []


def test_inspect_draws_where_the_time_goes_against_plain_decoding(command: Run) -> None:
    done = command("inspect", "measurements.csv", "--json", "--plot", "figures")
    assert (done.code, json.loads(done.out)["schema"]) == (0, "toolkit.inspect/1")
    assert drawn() == ["against-plain-sglang-tp1-b1.png", "against-plain-sglang-tp1-b1.svg"]
    assert "wrote 1 figure to figures, each as PNG and SVG" in done.err


def test_fit_and_predict_draw_into_one_folder(command: Run) -> None:
    assert command("model", "fit", "measurements.csv", "-o", "m.json", "--plot", "figures").code == 0
    asked = ("--accept-length", "2", "--at-num-draft-tokens", "3")
    assert command("predict", "--model", "m.json", *asked, "--plot", "figures").code == 0
    stems = ["accept-length-map", "fitted-sglang-tp1", "throughput"]
    assert drawn() == [f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")]


def test_a_report_has_the_figures_of_its_runs_fit_and_forecasts(command: Run) -> None:
    asked = ("--accept-length", "2", "--at-num-draft-tokens", "3")
    done = command("report", "measurements.csv", *asked, "--plot", "figures")
    assert done.code == 0, done.err
    stems = ["accept-length-map", "against-plain", "fitted", "throughput"]
    assert [name.partition("-sglang-tp1")[0] for name in drawn()[::2]] == stems
    assert "--plot" not in Path("report.html").read_text("utf-8")


def test_an_existing_figure_is_kept_and_no_model_is_written(command: Run) -> None:
    Path("figures").mkdir()
    Path("figures/fitted-sglang-tp1.png").write_text("mine")
    fit = ("model", "fit", "measurements.csv", "-o", "m.json", "--plot", "figures")
    done = command(*fit)
    assert (done.code, done.out) == (2, "")
    assert "fitted-sglang-tp1.png exists and is kept; give --overwrite" in done.err
    assert drawn() == ["fitted-sglang-tp1.png"] and not Path("m.json").exists()
    assert command(*fit, "--overwrite").code == 0
    assert Path("figures/fitted-sglang-tp1.png").stat().st_size > 1000


def test_a_slip_in_the_folder_s_place_makes_no_folder(command: Run) -> None:
    done = command("inspect", "measurements.csv", "--plot", "figurse/here")
    assert done.code == 3
    assert "there is no folder figurse; make it first" in done.err
    assert not Path("figurse").exists()


def test_a_result_without_anything_to_draw_says_so(command: Run) -> None:
    Path("plain.csv").write_text("\n".join(TABLE.splitlines()[:2]) + "\n", encoding="utf-8")
    done = command("inspect", "plain.csv", "--plot", "figures")
    assert done.code == 0
    assert "no figure for figures" in done.err
    assert not drawn()


def test_lines_of_a_log_are_not_drawn(command: Run) -> None:
    Path("server.log").write_text("x\n")
    done = command("inspect", "server.log", "--lines", "--plot", "figures")
    assert (done.code, "leave out --plot" in done.err) == (2, True)


def test_calibrate_draws_its_all_reduces_and_refuses_before_it_measures(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    measured: list[object] = []

    def run_calibration(*arguments: object) -> tuple[object, str]:
        measured.append(arguments)
        memory = (MemoryBandwidth(rank=0, read_gb_per_s=4000.0, copy_gb_per_s=3000.0),)
        return replace(calibration(Host(), sizes=(1, 2)), memory=memory), "0"

    monkeypatch.setattr(toolkit.live.calibrating, "run_calibration", run_calibration)
    once = ("calibrate", "-o", ".", "--plot", "figures")
    assert command(*once).code == 0
    assert drawn() == ["allreduce-latency.png", "allreduce-latency.svg"]
    assert command(*once).code == 2
    assert len(measured) == 1
