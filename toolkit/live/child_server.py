"""A reference engine started as a child process, with the probe on its path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolkit.errors import CaptureError
from toolkit.probe.where import site_folder

_READY_S = 90.0
_STOP_S = 10.0
_LOOK_S = 0.1
_LAST_LINES = 3


@contextmanager
def reference_server(arguments: Sequence[str], log: Path) -> Iterator[int]:
    """Yield the process id of a server that is ready; it ends with the block.

    Raises CaptureError with its last words if it does not come up.
    """
    package = Path(__file__).resolve().parents[2]
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    folders = dict.fromkeys([str(site_folder()), str(package), *inherited])
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "toolkit.reference", *arguments, "--end-with-stdin"],
            stdin=subprocess.PIPE,  # closed by the system where this process is killed
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
            start_new_session=True,  # Ctrl-C ends it by way of this block alone
        )
    try:
        _wait_ready(process, log)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin:
            process.stdin.close()


def _wait_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        text = log.read_text(errors="replace")
        if any(line.startswith("ready ") for line in text.splitlines()):
            return
        if process.poll() is not None:
            last = " | ".join(text.splitlines()[-_LAST_LINES:])
            raise CaptureError(f"the reference engine ended before it was ready ({last}); see if torch works")
        time.sleep(_LOOK_S)
    raise CaptureError(
        f"the reference engine was not ready after {_READY_S:.0f} s; try a host with less to do"
    )
