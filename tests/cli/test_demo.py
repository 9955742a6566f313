"""`toolkit demo`: refused in a sentence without torch, the whole loop with it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.cli import main

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo"]) == 4
    out, error = capsys.readouterr()
    assert out == ""
    assert "needs torch; install toolkit[torch]" in error


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("shares", ["0.5,0.7", "1.2"])
def test_shares_must_fall_and_be_shares(toolkit_command: CommandLine, shares: str) -> None:
    done = toolkit_command("demo", "--accept-by-position", shares)
    assert done.returncode == 2
    assert "must fall" in done.stderr


@pytest.mark.engine  # about a minute of two cores
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_what_is_predicted_is_then_measured(toolkit_command: CommandLine, tmp_path: Path) -> None:
    done = toolkit_command("demo", "--json", "-o", "kept")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "toolkit.demo/1"
    for name in ("predicted_tok_s", "measured_tok_s", "baseline_tok_s"):
        assert 0 < result[name]["lo"] <= result[name]["value"] <= result[name]["hi"]
    assert 0 <= result["recommended"]["num_steps"] <= 6
    assert len(list((tmp_path / "kept" / "runs").iterdir())) == 4
