"""How long a command takes, and how much memory it and its processes hold at most (Linux)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall time; `peak_mb` is the largest sum of PSS seen (10^6 bytes), None where nobody looked."""

    seconds: float
    peak_mb: float | None
    output: str
    failed: str | None  # the last line of its errors


def measured(
    command: Sequence[str], *, every_s: float | None = None, env: Mapping[str, str] | None = None
) -> Measured:
    """Run a command; with `every_s`, look that often at its memory, which costs it time."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
    ) as process:
        peak = 0
        while every_s is not None and process.poll() is None:
            peak = max(peak, sum(_pss_bytes(one) for one in _with_children(process.pid)))
            time.sleep(every_s)
        output, errors = process.communicate()
    seconds = time.perf_counter() - start
    failed = ([*errors.strip().splitlines(), "it failed"][-1] if errors.strip() else "it failed") or None
    return Measured(
        seconds, peak / 1e6 if every_s is not None else None, output, failed if process.returncode else None
    )


def _with_children(pid: int) -> list[int]:
    """Return a process and all below it, as far as they still live."""
    found, at = [pid], 0
    while at < len(found):
        for listed in Path(f"/proc/{found[at]}/task").glob("*/children"):
            try:
                found += map(int, listed.read_text().split())
            except OSError:
                continue
        at += 1
    return found


def _pss_bytes(pid: int) -> int:
    """Return a process's memory, shared pages divided among those that share them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
