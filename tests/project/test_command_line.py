"""The frame of the command line: how it ends, and what it must not import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import toolkit.cli
from toolkit import __version__, errors

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ends_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[BaseException], int]]:
    """Return a function: the exit code of a command that raises this."""

    def run(error: BaseException) -> int:
        @click.command("predict")
        def command() -> None:
            raise error

        monkeypatch.setattr(toolkit.cli.LazyGroup, "get_command", lambda self, ctx, name: command)
        return toolkit.cli.main(["predict"])

    yield run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (errors.BadInputError("x"), 3),
        (errors.CaptureError("x"), 4),
        (errors.UndeterminedError("x"), 5),
        (click.UsageError("x"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(32, "Broken pipe"), 0),
        (ZeroDivisionError("x"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_ends_with_its_exit_code(
    ends_with: Callable[[BaseException], int], error: BaseException, code: int
) -> None:
    assert ends_with(error) == code


def test_an_error_is_one_sentence_on_stderr_and_nothing_on_stdout(
    ends_with: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]
) -> None:
    ends_with(errors.BadInputError("a.json, line 3: not JSON; write it again"))
    assert capsys.readouterr() == ("", "toolkit: a.json, line 3: not JSON; write it again\n")


def test_a_bug_shows_its_traceback_only_when_asked(
    ends_with: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOOLKIT_DEBUG", raising=False)
    ends_with(ZeroDivisionError("here"))
    short = capsys.readouterr().err
    monkeypatch.setenv("TOOLKIT_DEBUG", "1")
    ends_with(ZeroDivisionError("here"))
    long = capsys.readouterr().err
    assert "bug (ZeroDivisionError: here)" in short
    assert "Traceback" not in short
    assert "Traceback" in long


def test_every_listed_command_exists_and_explains_itself() -> None:
    context = click.Context(toolkit.cli.command_line)
    for name in toolkit.cli.COMMANDS:
        command = toolkit.cli.command_line.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_python_m_toolkit_is_the_script(toolkit_command: CommandLine) -> None:
    done = toolkit_command("--version")
    assert (done.returncode, done.stdout.split()) == (0, ["toolkit", __version__])


def test_an_unknown_command_keeps_clicks_own_words(toolkit_command: CommandLine) -> None:
    done = toolkit_command("frobnicate")
    assert done.returncode == 2
    assert "No such command 'frobnicate'" in done.stderr
    assert done.stdout == ""


def test_help_lists_exactly_the_commands_that_exist(toolkit_command: CommandLine) -> None:
    listed = toolkit_command("--help").stdout.split("Commands:")[1]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")] == list(
        toolkit.cli.COMMANDS
    )


@pytest.mark.skipif(os.name == "nt", reason="no broken pipes")
def test_a_reader_that_leaves_early_is_not_an_error(repository: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "toolkit", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=repository,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    error = child.stderr.read().decode()
    child.stderr.close()
    assert (child.wait(timeout=60), error) == (0, "")


def test_importing_the_command_line_loads_no_heavy_and_no_optional_module(repository: Path) -> None:
    program = "import sys, toolkit.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=repository, check=True
    ).stdout.split()
    heavy = {"torch", "pandas", "matplotlib", "pynvml", "numpy", "scipy", "isal", "rich", "psutil"}
    assert "toolkit.cli" in loaded
    assert not heavy & set(loaded)


# Put before the program: as on a host that has none of these.
WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {names}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Absent())
for name in {names}: sys.modules.pop(name, None)
from toolkit.cli import main
"""
UNIX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios"}
OPTIONAL = {"torch", "pandas", "matplotlib", "pynvml", "isal", "psutil"}


@pytest.mark.parametrize("absent", [UNIX_ONLY, OPTIONAL], ids=["unix-only", "optional"])
def test_reading_fitting_and_predicting_need_no_such_module(
    absent: set[str], traces: Path, tmp_path: Path, repository: Path
) -> None:
    runs = [str(path) for path in sorted(traces.glob("*sglang*tp1*"))]
    model = str(tmp_path / "model.json")
    commands = [
        ["inspect", *runs, "--json"],
        ["model", "fit", *runs, "-o", model, "--json"],
        ["predict", "--model", model, "--accept-rate", "0.36", "--json"],
    ]
    program = WITHOUT.format(names=sorted(absent)) + f"sys.exit(max(main(c) for c in {commands!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=repository, check=False
    )
    assert done.returncode == 0, done.stderr
