"""Capturing one run: a load that is driven, or the traffic that is there, seen by every open way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.errors import CaptureError
from toolkit.live.driving import Driver
from toolkit.live.engine_profiler import EngineProfiler
from toolkit.live.gpu import GpuSampling, slowed_windows
from toolkit.live.inflation import trace_inflation
from toolkit.live.log_window import LogWindow
from toolkit.live.on_demand import OnDemandTrace
from toolkit.live.overhead import measure_overhead, overhead_by_log
from toolkit.live.proc import process
from toolkit.live.recording import Recorded, SpanRecording
from toolkit.live.target import Target
from toolkit.schema.client import ClientResult
from toolkit.schema.profile import Load

_LOOK_S = 0.1
_ASK_S = 0.5  # each question takes a moment from the rank that answers
_FEWEST_REPEATS = 4  # fewer have no interval worth its name
_MOST_REPEATS = 200
_PAST_PREFILL_S = 0.3
_LOG_WINDOW_S = 2.0
_AROUND_S = 1.0  # untraced traffic wanted after a trace
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How much to capture. `cycles` and `seconds` bound each run; `trace_cycles` 0 takes no trace."""

    cycles: int = 400
    seconds: float = 60.0
    trace_cycles: int = 0
    overhead_pairs: int = 0
    on_demand: bool = False  # the trace comes from PyTorch itself, not by way of the engine


@dataclass(slots=True)
class Captured:
    """What was captured of one run, whole or not."""

    load: Load | None
    recorded: Recorded = field(default_factory=lambda: Recorded((), ()))
    client: ClientResult | None = None
    log_lines: list[str] = field(default_factory=list)
    gpu_samples: list[dict[str, Any]] = field(default_factory=list)
    traces: dict[int, Path] = field(default_factory=dict)
    excluded: list[dict[str, Any]] = field(default_factory=list)
    overhead: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    failure: str | None = None
    interrupted: bool = False
    warnings: list[str] = field(default_factory=list)
    profiler: EngineProfiler | OnDemandTrace | None = None

    @property
    def complete(self) -> bool:
        """Say whether everything that was wished for is there."""
        return not self.interrupted and self.failure is None

    @property
    def empty(self) -> bool:
        """Say whether nothing at all was measured."""
        counted = self.client and (self.client.repeats or self.client.requests)
        return not (self.recorded.cycles or self.traces or self.log_lines or counted)


def capture(target: Target, driver: Driver | None, wishes: Wishes, say: Say) -> Captured:
    """Capture one run. Ctrl-C and a server that fails end it early; what there is by then is returned."""
    found = Captured(driver.load if driver else None)
    work = _Work(target, driver, wishes, say, found)
    begin = time.monotonic()
    try:
        work.before()
        begin = time.monotonic()
        work.during()
    except KeyboardInterrupt:
        found.interrupted = True
    except CaptureError as error:
        found.failure = _ended(target) or str(error)
    finally:
        work.after()
    found.seconds = time.monotonic() - begin
    return found


def _ended(target: Target) -> str | None:
    """Return a sentence on the server's processes that are gone; None where all run."""
    gone = [pid for pid in (target.server.pid, *target.server.rank_pids) if process(pid) is None]
    if not gone:
        return None
    return f"process {gone[0]} of the server ended while it was profiled; see its log, and start it again"


class _Work:
    """The steps of one capture; each leaves what it has in `found`."""

    def __init__(
        self, target: Target, driver: Driver | None, wishes: Wishes, say: Say, found: Captured
    ) -> None:
        self._target, self._driver, self._wishes, self._say, self._found = target, driver, wishes, say, found
        self._log = LogWindow(target.server.log)
        self._gpu: GpuSampling | None = None
        self._recording: SpanRecording | None = None
        self._traced_ns: tuple[int, int, int] | None = None  # on, off, files written

    def before(self) -> None:
        """Warm up and measure the probe's cost; neither is part of the run."""
        target, pairs = self._target, self._wishes.overhead_pairs
        if self._driver:
            self._say("warming up")
            self._driver.warm_up()
        if target.probes is None or not pairs:
            return
        if self._driver:
            measure_overhead(self._driver, target.probes, pairs, self._say, self._found.overhead)
        elif target.server.log and LogWindow.moves(target.server.log, _LOG_WINDOW_S):
            self._found.overhead = overhead_by_log(
                target.server.log, target.probes, pairs, _LOG_WINDOW_S, self._say
            )

    def during(self) -> None:
        """Record while the load runs, then trace a few of its cycles."""
        self._log = LogWindow(self._target.server.log)
        self._gpu = GpuSampling(self._target.nvml, self._target.gpus, self._target.server.rank_pids)
        if self._target.probes:
            self._recording = SpanRecording(self._target.probes)
        end = time.monotonic() + self._wishes.seconds
        if self._wishes.on_demand:
            self._trace_on_demand()
        elif self._driver:
            self._driver.repeat(lambda: self._enough(end))
        else:
            self._watch(end)
        if self._wishes.trace_cycles:
            self._trace()

    def _cycles(self) -> int:
        if self._recording:
            return self._recording.recorded()
        if self._driver is None:
            return 0
        counts = self._driver.requests
        return (
            sum(one.verify_cycles or one.output_tokens or 0 for one in counts) // self._driver.load.batch_size
        )

    def _enough(self, end: float) -> bool:
        repeats = len(self._driver.repeats) if self._driver else 0
        cycles = self._cycles()
        self._say(f"{cycles} of {self._wishes.cycles} cycles, {repeats} batches")
        if self._recording and self._recording.ended and repeats:
            self._found.warnings.append("the probes stopped recording while the load was running")
            return True
        late = time.monotonic() >= end or repeats >= _MOST_REPEATS
        return late or (repeats >= _FEWEST_REPEATS and cycles >= self._wishes.cycles)

    def _watch(self, end: float) -> None:
        """Wait for traffic that others send."""
        while time.monotonic() < end:
            time.sleep(_ASK_S)
            cycles = self._cycles()
            self._say(f"{cycles} of {self._wishes.cycles} cycles of the traffic that is there")
            if self._recording and (cycles >= self._wishes.cycles or self._recording.ended):
                return

    def _trace_on_demand(self) -> None:
        """Take a trace from PyTorch itself, under the load where there is one."""
        self._say("waiting for the process to ask for a trace")
        trace = OnDemandTrace(self._target.server)
        self._found.profiler = trace
        with self._driver.under_way() if self._driver else nullcontext():
            self._found.traces = trace.collect()
        if not self._found.traces:
            raise CaptureError("the process took the request but wrote no trace; see its output")

    def _trace(self) -> None:
        if self._target.http is None:
            self._found.warnings.append("no trace was taken: no HTTP endpoint answers")
            return
        profiler = EngineProfiler(self._target.server, self._target.http, self._target.flags)
        self._found.profiler = profiler
        self._found.log_lines = self._log.lines()  # what is printed from here on is of traced cycles
        try:
            if self._driver is None:
                self._traced(profiler)
                time.sleep(_AROUND_S)
                return
            with self._driver.under_way():
                time.sleep(_PAST_PREFILL_S)
                self._traced(profiler)
            self._driver.once()  # cycles after the trace, to compare its own with
        except CaptureError as error:
            self._found.warnings.append(f"no trace was taken: {error}")

    def _traced(self, profiler: EngineProfiler) -> None:
        self._say(f"tracing {self._wishes.trace_cycles} cycles")
        begin = time.monotonic_ns()
        first = self._cycles()
        profiler.start(self._wishes.trace_cycles)
        bound = time.monotonic() + min(self._wishes.seconds, 30.0)
        while self._cycles() < first + self._wishes.trace_cycles and time.monotonic() < bound:
            if not self._recording:
                time.sleep(_PAST_PREFILL_S)
                break
            time.sleep(_LOOK_S)
        stopped = time.monotonic_ns()
        profiler.stop()
        self._found.traces = profiler.collect()
        self._traced_ns = (begin, stopped, time.monotonic_ns())
        missing = len(self._target.server.rank_pids) - len(self._found.traces)
        if missing:
            self._found.warnings.append(f"{missing} ranks wrote no trace in time; see the server's log")

    def _mark_slowed(self) -> None:
        """Mark when a GPU ran below its clocks; one that always did is the state that was measured."""
        samples = self._found.gpu_samples
        slowed = [sample for sample in samples if sample.get("slowed_by")]
        if 2 * len(slowed) <= len(samples):
            self._found.excluded = slowed_windows(samples)
            return
        reasons = sorted({reason for sample in slowed for reason in sample["slowed_by"]})
        self._found.warnings.append(
            f"GPUs were slowed by {', '.join(reasons)} most of the time: so are the times"
        )

    def after(self) -> None:
        """Stop everything and gather what it saw."""
        found = self._found
        if self._recording:
            found.recorded = self._recording.finish()
            found.warnings += found.recorded.warnings
        if self._gpu:
            found.gpu_samples = self._gpu.finish()
        if self._driver:
            found.client = self._driver.result()
        if not found.profiler:
            found.log_lines = self._log.lines()
        self._mark_slowed()
        if self._traced_ns:
            begin, stopped, end = self._traced_ns
            found.excluded.append({"from_ns": begin, "to_ns": end, "why": "the engine's profiler was on"})
            inflation = trace_inflation(found.recorded.spans, begin, stopped, end)
            if inflation:
                found.overhead = {**found.overhead, "trace": inflation}
