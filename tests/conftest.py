"""What every test may use: where the recorded runs are, and the command line as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy one takes as long as it takes
settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parent.parent
CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]

# What a shell starts in the background ignores Ctrl-C, what nohup starts a closed terminal, and so would the
# commands that tests interrupt; what is handled here they have by default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites tests/golden instead of comparing with it."""
    parser.addoption("--update-golden", action="store_true", help="write what is printed into tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a text against the file of that name in tests/golden."""

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{name} is not there; run pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs; see pytest --update-golden"

    return compare


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the folder that holds setup.cfg."""
    return ROOT


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of the recorded runs."""
    return ROOT / "traces"


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of small files made for tests."""
    return ROOT / "tests" / "data"


@pytest.fixture
def toolkit_command(tmp_path: Path) -> CommandLine:
    """Return a function that runs `python -m toolkit` with arguments in an empty folder."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "toolkit", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environment},
        )

    return run
