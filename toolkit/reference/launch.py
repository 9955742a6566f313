"""Starts a process for each rank and watches them: the end of one is the end of the server."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_SERVER = "toolkit.reference"
FOLDER_PREFIX = "toolkit-reference-"
_LOCK = "lock"
_POLL_S = 0.05
_PATIENCE_S = 5.0  # between asking a rank to end and killing it


class _StopError(Exception):
    """Someone asked the server to end."""


def launch(arguments: Sequence[str], ranks: int, module: str = _SERVER) -> int:
    """Run ranks until a signal or the end of one; return the exit code.

    0 when asked to end (SIGTERM, SIGINT), else 1: a rank of a server never ends on its own. Where all have
    ended well, as those of other modules do, 0 too.
    """
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    started: list[subprocess.Popen[bytes]] = []
    remove_left_folders()
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as folder, _held(Path(folder)):
        try:
            for rank in range(ranks):
                started.append(_start(module, arguments, rank, Path(folder) / "rendezvous"))
            return _watch(started, may_end=module != _SERVER)
        except _StopError:
            return 0
        finally:
            _end(started)


def remove_left_folders() -> None:
    """Remove the folders of servers that were killed: those whose lock nobody holds.

    A process id would not tell: the server may run in a container that shares the temporary folder.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or of a server that is just starting
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its server runs
        finally:
            os.close(lock)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; the system lets go of it when this process ends, killed or not."""
    begun = folder / f"{_LOCK}.new"
    lock = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        begun.rename(folder / _LOCK)  # under its name it is never without its holder
        yield
    finally:
        os.close(lock)


def end_with_stdin(end: Callable[[], object]) -> None:
    """Call `end` when standard input closes: whoever started this process is gone."""

    def wait() -> None:
        # not by way of sys.stdin: a lock held there when the interpreter ends is a fatal error
        while os.read(sys.stdin.fileno(), 4096):
            pass
        end()

    threading.Thread(target=wait, name="stdin", daemon=True).start()


def _start(module: str, arguments: Sequence[str], rank: int, rendezvous: Path) -> subprocess.Popen[bytes]:
    """Start one rank in a session of its own, so that Ctrl-C reaches only the launcher."""
    command = [sys.executable, "-m", module, *arguments]
    command += ["--tp-rank", str(rank), "--rendezvous", str(rendezvous)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _watch(started: Sequence[subprocess.Popen[bytes]], may_end: bool) -> int:
    while True:
        for rank, process in enumerate(started):
            code = process.poll()
            if code or (code == 0 and not may_end):
                sys.stderr.write(f"rank {rank} ended with code {code}; the others are ended\n")
                return 1
        if all(process.poll() == 0 for process in started):
            return 0
        time.sleep(_POLL_S)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for process in started:
        process.terminate()
    until = time.monotonic() + _PATIENCE_S
    for process in started:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _StopError
