"""The program that measures a host, started as a child process, and what it found as a record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from toolkit import __version__
from toolkit.errors import BadInputError, CaptureError, ToolkitError, UsageError
from toolkit.ingest.json_files import record_of
from toolkit.schema.calibration import Calibration

_PROGRAM = "toolkit.reference.calibrating"
_REFUSED, _NO_DEVICE = 2, 3  # how the program ends
_STOP_S = 10.0
_LAST_LINES = 3


def run_calibration(arguments: Sequence[str], say: Callable[[str], None]) -> tuple[Calibration, str]:
    """Measure and return the record, and the version of the engine that did.

    `say` is told how far it is. Raises UsageError or BadInputError for what cannot be measured,
    CaptureError with the last words of a rank that failed. Whatever ends this block ends the ranks.
    """
    with tempfile.TemporaryDirectory(prefix="toolkit-calibrate-") as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        with log.open("wb") as errors, _started([*arguments, "--result", str(result)], errors) as process:
            assert process.stdout is not None
            for line in process.stdout:
                word, _, text = line.decode(errors="replace").rstrip().partition(" ")
                if word == "progress":
                    say(text)
            code = process.wait()
        if code or not result.exists():
            raise _failure(code, log.read_text(errors="replace").splitlines())
        return read_result(result)


def read_result(path: Path) -> tuple[Calibration, str]:
    """Return the record in a file that the program wrote, and the version of the engine that measured."""
    found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    engine_version = str(found.pop("engine_version"))
    return record_of({**found, "toolkit_version": __version__}, Calibration, path), engine_version


@contextmanager
def _started(arguments: Sequence[str], errors: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    package = Path(__file__).resolve().parents[2]
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    folders = dict.fromkeys([str(package), *inherited])
    process = subprocess.Popen(
        [sys.executable, "-m", _PROGRAM, *arguments, "--end-with-stdin"],
        stdin=subprocess.PIPE,  # closed by the system where this process is killed
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        start_new_session=True,  # Ctrl-C ends it by way of this block alone
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def _failure(code: int, lines: Sequence[str]) -> ToolkitError:
    """Return the error of a program that measured nothing, from how it ended and what it said."""
    last = " | ".join(line for line in lines[-_LAST_LINES:] if line.strip()) or f"exit code {code}"
    if code == _REFUSED:
        said = lines[-1] if lines else last
        return UsageError(said) if said.startswith("--") else BadInputError(said)
    if code == _NO_DEVICE:
        said = lines[-1] if lines else last
        return CaptureError(f"{said}; calibrate on a host with GPUs, or this CPU with --device cpu")
    failed = [line.removeprefix("failed: ") for line in lines if line.startswith("failed: ")]
    return CaptureError(
        f"the calibration ended before it was done ({failed[0] if failed else last}); "
        "see that nothing else uses the GPUs, or measure less with --quick or --tp"
    )
