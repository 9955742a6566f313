"""`toolkit --help` fits its lines, and says how commands end and where to read on."""

from __future__ import annotations

import re

import pytest

from toolkit.cli import COMMANDS, main


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `toolkit --help` prints."""
    assert main(["--help"]) == 0
    return capsys.readouterr().out


def test_no_command_is_cut(shown: str) -> None:
    listed = re.findall(r"^  ([a-z-]+)  +(.+)$", shown.split("Commands:")[1], re.MULTILINE)
    assert [name for name, _ in listed] == list(COMMANDS)
    assert not [line for _, line in listed if not line.endswith(".") or line.endswith("...")]


def test_exit_codes_and_documents_are_named(shown: str) -> None:
    assert "Exit codes: 0 done, 1 a bug, 2 usage, 3 bad input, 4 nothing captured" in shown
    assert "docs/reference.md" in shown and "docs/quick-start-sglang.md" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("command", [*COMMANDS, "model fit", "model check"])
def test_the_help_of_each_command_fits_80_columns_and_says_what_to_do_next(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert f"toolkit {command}" in said.split("\n", 1)[1] or command == "probe-path"
    assert "Next: " in said or command == "model"
