"""Stand-in servers as real processes, ended after each test."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SITE = Path(__file__).parent / "site"
StartServer = Callable[..., "RunningServer"]


@dataclasses.dataclass
class RunningServer:
    """A started stand-in: `temporary` is its temporary folder, where its probes listen."""

    process: subprocess.Popen[bytes]
    log: Path
    temporary: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def ranks(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(word) for word in children.split()]

    def wait_up(self, ranks: int, probed: bool) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            sockets = list(self.temporary.glob("toolkit-probe-*/*.sock"))
            if "running on" in self.log.read_text() and (len(sockets) >= ranks or not probed):
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"not up: {self.log.read_text()}")


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Return a function that starts a server with flags and, by default, a probe in each rank."""
    started: list[RunningServer] = []

    def start(*flags: str, tp: int = 1, probed: bool = True, **environment: str) -> RunningServer:
        number = len(started)
        temporary = tmp_path / f"tmp{number}"
        temporary.mkdir()
        log = tmp_path / f"server{number}.log"
        command = [sys.executable, "-m", "sglang.launch_server", "--tp", str(tp), *flags]
        variables = {**os.environ, "PYTHONPATH": str(SITE), "TMPDIR": str(temporary), **environment}
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**variables, "FAKE_PROBE": "1" if probed else "0"},
                start_new_session=True,
            )
        server = RunningServer(process, log, temporary)
        started.append(server)
        server.wait_up(tp, probed)
        return server

    yield start
    for one in started:
        os.killpg(one.pid, signal.SIGKILL)
        one.process.wait(10)
