"""`toolkit demo`: refused in a sentence without torch, the whole loop with it."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from toolkit.cli import main
from toolkit.report.demo_text import demo_text
from toolkit.schema.demo import DemoResult, Tried
from toolkit.schema.profile import Estimate

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or not sys.platform.startswith("linux"),
    reason="needs torch and /proc",
)
HELD = DemoResult(
    ranks=1,
    recommended=Tried(num_steps=4, num_draft_tokens=5, action="use", why="4 steps are the fastest"),
    predicted_tok_s=Estimate(value=200.0, lo=190.0, hi=210.0),
    measured_tok_s=Estimate(value=198.0, lo=195.0, hi=201.0),
    inside=True,
    baseline_predicted_tok_s=Estimate(value=100.0, lo=95.0, hi=105.0),
    baseline_tok_s=Estimate(value=101.0, lo=100.0, hi=102.0),
    baseline_inside=True,
    kept=None,
)
MISSED = dataclasses.replace(HELD, measured_tok_s=Estimate(value=150.0, lo=140.0, hi=160.0), inside=False)
SLOWER = Estimate(value=75.0, lo=70.0, hi=80.0)


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo"]) == 4
    out, error = capsys.readouterr()
    assert out == ""
    assert "needs torch; install toolkit[torch]" in error


@pytest.mark.parametrize("shares", ["0.5,0.7", "1.2", "nan"])
def test_shares_must_fall_and_be_shares(shares: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--accept-by-position", shares]) == 2
    assert "must fall" in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("x")
    assert main(["demo", "-o", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_prediction_that_held_is_shown_beside_the_measurement() -> None:
    text = demo_text(HELD)
    assert max(map(len, text.splitlines())) <= 80
    (row,) = [line.split() for line in text.splitlines() if line.strip().startswith("4 draft steps")]
    assert row[3:] == ["200.0", "190.0-210.0", "198.0", "195.0-201.0", "-1.0%", "inside"]
    assert "The prediction held" in text


def test_a_miss_is_called_one_and_blamed_on_the_host_only_if_plain_decoding_moved_with_it() -> None:
    alone = " ".join(demo_text(MISSED).split())
    assert "outside" in alone
    assert "The prediction missed" in alone and "does not reach it" in alone
    both = " ".join(
        demo_text(dataclasses.replace(MISSED, baseline_tok_s=SLOWER, baseline_inside=False)).split()
    )
    assert "Both ran slower" in both and "The prediction missed" not in both


def test_a_prediction_that_held_while_plain_decoding_did_not_says_that_the_host_is_uneven() -> None:
    text = demo_text(dataclasses.replace(HELD, baseline_tok_s=SLOWER, baseline_inside=False))
    assert "this host is uneven" in " ".join(text.split())


def _server_is_ready(log: Path) -> bool:
    return log.exists() and "ready " in log.read_text(encoding="utf-8")


@needs_torch
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_its_servers(tmp_path: Path, repository: Path, way: signal.Signals) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "toolkit", "demo", "-o", str(kept)]
    with subprocess.Popen(command, cwd=repository, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not _server_is_ready(kept / "engine-k0.log") and time.monotonic() < until:
            time.sleep(0.1)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(way)
        assert process.stderr is not None
        assert process.stderr.read().endswith("toolkit: interrupted\n")
    assert process.returncode == 130
    assert len(started) >= 2  # a launcher and its rank at least
    assert not psutil.wait_procs(started, timeout=15)[1]


@pytest.mark.engine  # about a minute of two cores
@needs_torch
def test_what_is_predicted_is_then_measured(toolkit_command: CommandLine, tmp_path: Path) -> None:
    done = toolkit_command("demo", "--json", "-o", "kept")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "toolkit.demo/1"
    names = ("predicted_tok_s", "measured_tok_s", "baseline_predicted_tok_s", "baseline_tok_s")
    for name in names:
        assert 0 < result[name]["lo"] <= result[name]["value"] <= result[name]["hi"]
    assert 0 <= result["recommended"]["num_steps"] <= 5
    predicted, measured = result["predicted_tok_s"], result["measured_tok_s"]
    assert result["inside"] == (predicted["lo"] <= measured["value"] <= predicted["hi"])
    assert len(list((tmp_path / "kept" / "runs").iterdir())) == 15
