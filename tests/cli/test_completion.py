"""Completion in bash, zsh and fish: commands, options, choices and file names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from toolkit.cli import COMMANDS, command_line

SHELLS: tuple[type[ShellComplete], ...] = (BashComplete, ZshComplete, FishComplete)
VARIABLE = "_TOOLKIT_COMPLETE"


@pytest.fixture(params=SHELLS, ids=lambda shell: shell.name)
def shell(request: pytest.FixtureRequest) -> ShellComplete:
    return request.param(command_line, {}, "toolkit", VARIABLE)


def offered(shell: ShellComplete, *before: str, begun: str = "") -> list[str]:
    return [item.value for item in shell.get_completions(list(before), begun)]


def test_commands_are_offered(shell: ShellComplete) -> None:
    assert offered(shell) == list(COMMANDS)
    assert offered(shell, begun="pre") == ["predict"]
    assert sorted(offered(shell, "model")) == ["check", "fit"]


def test_options_are_offered(shell: ShellComplete) -> None:
    assert offered(shell, "predict", begun="--accept-") == [
        "--accept-rate",
        "--accept-length",
        "--accept-by-position",
    ]
    assert "--server-pid" in offered(shell, "profile", begun="--")


def test_values_of_a_choice_are_offered(shell: ShellComplete) -> None:
    assert offered(shell, "predict", "--rate-kind") == ["log", "draft", "conditional"]
    assert offered(shell, "predict", "--emit", begun="sglang") == ["sglang-flags", "sglang-adaptive"]


@pytest.mark.parametrize(
    "before",
    [
        ["inspect"],
        ["model", "fit"],
        ["model", "fit", "traces", "-o"],
        ["model", "check", "cost-model.json"],
        ["predict", "--model"],
        ["predict", "--emit", "vllm"],
        ["profile", "--prompts"],
        ["calibrate", "--config"],
    ],
    ids=" ".join,
)
def test_paths_are_left_to_the_shell_that_knows_files(shell: ShellComplete, before: list[str]) -> None:
    assert [item.type for item in shell.get_completions(before, "tra")] == ["file"]


def test_the_line_that_switches_it_on_prints_a_script_for_the_shell(repository: Path) -> None:
    for name in ("zsh", "fish"):
        done = _completes(repository, f"{name}_source")
        assert (done.returncode, done.stderr) == (0, "")
        assert "_toolkit_completion" in done.stdout and f"{VARIABLE}={name}_complete" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_a_line_with_the_script_that_it_was_given(repository: Path, tmp_path: Path) -> None:
    script = tmp_path / "toolkit"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolkit "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    line = (
        f'eval "$({VARIABLE}=bash_source toolkit)"; COMP_WORDS=(toolkit predict --accept-l); COMP_CWORD=2; '
        '_toolkit_completion toolkit; echo "${COMPREPLY[@]}"'
    )
    variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", line],
        capture_output=True,
        text=True,
        cwd=repository,
        env=variables,
        check=False,
    )
    assert done.stdout == "--accept-length\n", done.stderr


def _completes(repository: Path, instruction: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolkit"],
        capture_output=True,
        text=True,
        cwd=repository,
        env={**os.environ, VARIABLE: instruction},
        check=False,
    )
