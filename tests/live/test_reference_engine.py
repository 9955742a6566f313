"""The whole way with a real engine and the real probe, on the CPU."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]
DRIVE = ("--drive", "batch=1,2 tokens=48 context=32", "--cycles", "40", "--overhead-pairs", "0")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the process id of a server of two ranks and three draft steps."""
    from toolkit.live.child_server import reference_server

    log = tmp_path_factory.mktemp("engine") / "server.log"
    arguments = ["--tp", "2", "--steps", "3", "--accept-by-position", "1,1,0", "--max-batch", "2"]
    with reference_server(arguments, log) as pid:
        yield pid


def test_profiled_by_pid_inspected_and_fitted(
    reference: int, toolkit_command: CommandLine, tmp_path: Path
) -> None:
    done = toolkit_command("profile", "--server-pid", reference, *DRIVE, "-o", "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["used"] == "probe"
    assert [(run["ranks"], run["complete"], run["dropped"]) for run in report["runs"]] == [(2, True, 0)] * 2
    inspected = json.loads(toolkit_command("inspect", "out", "--json").stdout)
    for run, batch in zip(inspected["runs"], (1, 2), strict=True):
        cell = max(run["configurations"], key=lambda one: one["cycles"])
        assert (cell["batch_size"], cell["num_steps"]) == (batch, 3)
        assert cell["cycles"] >= 40
        assert set(cell["ranks"][1]["phases"]) >= {"draft", "verify", "sample", "draft_extend"}
        assert len(cell["draft_steps"]) == 2
        assert 2.8 < cell["acceptance"]["accept_length"] <= 3
    fitted = toolkit_command("model", "fit", "out", "--json")
    assert fitted.returncode == 0, fitted.stderr


def test_a_killed_profiler_leaves_it_serving(
    reference: int, toolkit_command: CommandLine, tmp_path: Path, repository: Path
) -> None:
    command = [sys.executable, "-m", "toolkit", "profile", "--server-pid", str(reference)]
    command += [
        "--drive",
        "tokens=400 context=32",
        "--cycles",
        "100000",
        "--overhead-pairs",
        "0",
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, cwd=repository) as process:
        time.sleep(3)
        process.send_signal(signal.SIGKILL)
    done = toolkit_command("profile", "--server-pid", reference, *DRIVE, "-o", "next", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["complete"] is True
