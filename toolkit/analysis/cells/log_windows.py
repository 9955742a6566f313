"""Windows of a server log that are steady decoding: what lies between two statistics lines.

T = running requests x accept length / throughput holds for a window of constant batch without
prefill. Left out are windows that a prefill or a profiler touched, the first one after a pause, and those in
which graphs began or ceased to be replayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.schema.log import LogLine, Ranks
from toolkit.units import cycle_us_of

_DECODE_INTERVAL = 40  # SGLang's default cycles between two decode lines
_OUTLIER = 2.0  # a window this many times longer per cycle than its peers held a pause or a prefill


@dataclass(frozen=True, slots=True)
class LogWindow:
    """One steady window. `cycle_us` is the mean cycle; `request_cycles` how many it averages, if known."""

    batch_size: int
    accept_length: float | None
    accept_rate: float | None
    tok_s: float
    cycle_us: float | None
    context_tokens: int | None
    accept_by_position: tuple[float, ...]
    request_cycles: int | None
    line_number: int
    graph: bool | None = None  # as the line at its end says


def steady_windows(lines: Sequence[LogLine], plain: bool | None) -> list[LogWindow]:
    """Return the windows of a log that a fit may use.

    `plain` says whether the server decodes without speculation, so that a line without an accept
    length means one token a cycle; None takes the lines' word for it.
    """
    speculative = any(line.accept_length is not None for line in lines) if plain is None else not plain
    by_rank: dict[Ranks, list[LogLine]] = defaultdict(list)
    for line in _joined(lines):
        by_rank[line.ranks].append(line)
    windows = [window for own in by_rank.values() for window in _of_rank(own, speculative)]
    return sorted(_without_outliers(windows), key=lambda window: window.line_number)


def _of_rank(lines: Sequence[LogLine], speculative: bool) -> list[LogWindow]:
    windows: list[LogWindow] = []
    disturbed = profiling = False
    before: tuple[int, bool | None] | None = None  # requests that ran when the window began, in a graph?
    for line in lines:
        if line.profiler is not None:  # it slows the host, and its export stops the server
            profiling, disturbed = line.profiler, True
            continue
        if line.kind == "prefill":
            disturbed, before = True, None
            continue
        if line.kind != "decode" or line.running_req is None:
            continue
        now = (line.running_req, line.graph)
        changed = before is not None and before != now
        if not (disturbed or changed or profiling or line.prompt_tok_s):
            window = _window(line, speculative)
            if window:
                windows.append(window)
        disturbed, before = False, now
    return windows


def _window(line: LogLine, speculative: bool) -> LogWindow | None:
    if not line.running_req or not line.tok_s:
        return None
    length = line.accept_length if speculative else 1.0
    if length is not None and length < 1:
        return None
    context = line.context_tokens if line.running_req == 1 else None  # a shared prefix counts once
    return LogWindow(
        batch_size=line.running_req,
        accept_length=line.accept_length if speculative else None,
        accept_rate=line.accept_rate,
        tok_s=line.tok_s,
        cycle_us=cycle_us_of(line.running_req * length, line.tok_s) if length else None,
        context_tokens=context or None,
        accept_by_position=line.accept_by_position,
        request_cycles=_request_cycles(line),
        line_number=line.line_number,
        graph=line.graph,
    )


def _request_cycles(line: LogLine) -> int | None:
    """Return how many request-cycles a line averages: vLLM counts them, SGLang prints every 40 cycles."""
    if line.num_correct_drafts is not None and line.accept_length and line.accept_length > 1:
        return round(line.num_correct_drafts / (line.accept_length - 1))
    return _DECODE_INTERVAL * line.running_req if line.running_req and line.engine == "sglang" else None


def _joined(lines: Sequence[LogLine]) -> list[LogLine]:
    """Return lines with vLLM's two statistics lines of one moment joined into a decode line."""
    joined: list[LogLine] = []
    for at, line in enumerate(lines):
        if line.engine != "vllm":
            joined.append(line)
        elif (
            line.kind in ("other", "spec_metrics") and line.tok_s is not None and line.running_req is not None
        ):
            both = line.kind == "spec_metrics"  # some print both on one line
            joined.append(_vllm_decode(line, line if both else _metrics_beside(lines, at)))
    return joined


def _metrics_beside(lines: Sequence[LogLine], at: int) -> LogLine | None:
    """Return the acceptance line printed with a statistics line: next to it, at the same second."""
    for beside in (at + 1, at - 1, at + 2, at - 2):
        if 0 <= beside < len(lines):
            other = lines[beside]
            if other.kind == "spec_metrics" and other.timestamp == lines[at].timestamp:
                return other
    return None


def _vllm_decode(line: LogLine, metrics: LogLine | None) -> LogLine:
    return LogLine(
        engine=line.engine,
        kind="decode",
        running_req=line.running_req,
        tok_s=line.tok_s,
        prompt_tok_s=line.prompt_tok_s,
        accept_length=metrics.accept_length if metrics else line.accept_length,
        accept_rate=metrics.accept_rate if metrics else None,
        accept_by_position=metrics.accept_by_position if metrics else (),
        num_correct_drafts=metrics.num_correct_drafts if metrics else None,
        timestamp=line.timestamp,
        ranks=line.ranks,
        line_number=line.line_number,
    )


def _without_outliers(windows: Sequence[LogWindow]) -> list[LogWindow]:
    """Drop windows whose cycle is far longer than that of others with the same batch and kind of launch."""
    alike: dict[tuple[int, bool | None], list[float]] = defaultdict(list)
    for window in windows:
        if window.cycle_us is not None:
            alike[window.batch_size, window.graph].append(window.cycle_us)
    usual = {kind: float(np.median(values)) for kind, values in alike.items()}
    return [w for w in windows if w.cycle_us is None or w.cycle_us <= _OUTLIER * usual[w.batch_size, w.graph]]
