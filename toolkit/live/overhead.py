"""The probe's own cost: batches in turn with it asleep and awake, compared in pairs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.ingest.logs.server_log import read_log_line
from toolkit.live.confidence import ratio_of_pairs
from toolkit.live.driving import Driver, cycle_us
from toolkit.live.log_window import LogWindow
from toolkit.live.probe_client import Probes
from toolkit.live.recording import SpanRecording
from toolkit.units import US_PER_S


def measure_overhead(
    driver: Driver, probes: Probes, pairs: int, say: Callable[[str], None], found: dict[str, Any]
) -> None:
    """Put into `found` what awake probes add to a cycle, as a fraction with its 90 % interval.

    The order within a pair alternates, so that a drift does not look like a cost. What the probes write
    meanwhile is thrown away. `found` is brought up to date with each pair: an interruption keeps it.
    """
    measured: list[tuple[float, float]] = []
    load = driver.load
    how = "batches of the load in turn with the probe asleep and awake; cycle times with prefill included"
    at = {"batch_size": load.batch_size, "output_tokens": load.output_tokens}
    for pair in range(pairs):
        say(f"probe asleep against awake: pair {pair + 1} of {pairs}")
        times: dict[bool, float | None] = {}
        for awake in (False, True) if pair % 2 == 0 else (True, False):
            times[awake] = _timed(driver, probes, awake)
        asleep_us, awake_us = times[False], times[True]
        if asleep_us and awake_us:
            measured.append((asleep_us, awake_us))
        result = _as_json(measured, how)
        if result:
            found.update(result, measured_at=at)


def _as_json(measured: list[tuple[float, float]], how: str) -> dict[str, Any]:
    ratio = ratio_of_pairs(measured)
    if ratio is None:
        return {}
    return {
        "fraction": round(ratio.value, 6),
        "lo": round(ratio.lo, 6),
        "hi": round(ratio.hi, 6),
        "of": "cycle time",
        "pairs": len(measured),
        "how": f"{how}; mean log ratio with its 90 % interval over pairs",
    }


def _timed(driver: Driver, probes: Probes, awake: bool) -> float | None:
    if not awake:
        return cycle_us(*driver.once(), driver.load.batch_size)
    recording = SpanRecording(probes)
    try:
        return cycle_us(*driver.once(), driver.load.batch_size)
    finally:
        recording.abandon()


def overhead_by_log(
    log: Path, probes: Probes, pairs: int, window_s: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the same for traffic that others send, from the cycles that the server's log implies.

    Windows of a pair are compared at one number of running requests; pairs without such are left out.
    """
    measured: list[tuple[float, float]] = []
    for pair in range(pairs):
        say(f"probe asleep against awake by the log: pair {pair + 1} of {pairs}")
        windows: dict[bool, dict[int, float]] = {}
        for awake in (False, True) if pair % 2 == 0 else (True, False):
            windows[awake] = _logged(log, probes if awake else None, window_s)
        shared = windows[False].keys() & windows[True].keys()
        measured += [(windows[False][batch], windows[True][batch]) for batch in shared]
    how = f"windows of {window_s:g} s in turn with the probe asleep and awake; cycles by the server's log"
    return _as_json(measured, how)


def _logged(log: Path, probes: Probes | None, window_s: float) -> dict[int, float]:
    """Return the mean cycle in us at each number of running requests, in one window."""
    recording = SpanRecording(probes) if probes else None
    try:
        window = LogWindow(log)
        time.sleep(window_s)
        lines = [read_log_line(line) for line in window.lines()]
    finally:
        if recording:
            recording.abandon()
    cycles: dict[int, list[float]] = defaultdict(list)
    for line in lines[1:]:  # the first one's interval began before the window
        if line.kind == "decode" and line.running_req and line.tok_s:
            cycles[line.running_req].append(
                line.running_req * (line.accept_length or 1.0) * US_PER_S / line.tok_s
            )
    return {batch: sum(times) / len(times) for batch, times in cycles.items()}
