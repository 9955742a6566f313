"""Names and disks that take no file: a sentence and exit code 3, wherever a command meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.cli import main

LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "RUN", "--plot", LONG),
        ("report", "RUN", "-o", f"{LONG}.html"),
        ("calibrate", "--device", "cpu", "--config", LONG),
        ("calibrate", "--device", "cpu", "-o", LONG),
        ("inspect", LONG),
    ],
)
def test_a_name_that_is_too_long_is_no_bug(
    arguments: tuple[str, ...],
    traces: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(traces / "2026-11-30-sglang-llama-8b-shaped-dummy-tp1-k2-b1")
    assert main([run if one == "RUN" else one for one in arguments]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert "File name too long" in said and "; give " in said and "bug" not in said
