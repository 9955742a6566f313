"""Configurations from the windows of a server log."""

from __future__ import annotations

from collections import Counter, defaultdict

from toolkit.analysis.accept_rate import settle_convention, width_of_most
from toolkit.analysis.acceptance import from_log
from toolkit.analysis.cells.cell_key import CellKey
from toolkit.analysis.cells.context import context_bin, mean_context
from toolkit.analysis.cells.log_notes import log_notes
from toolkit.analysis.cells.log_windows import LogWindow, steady_windows
from toolkit.analysis.statistics import spread
from toolkit.schema.inspection import Configuration, Throughput
from toolkit.schema.log import ServerLog
from toolkit.schema.run import RunInfo


def log_draft_tokens(log: ServerLog) -> int | None:
    """Return the draft tokens (root included) that the log's own lengths and rates imply.

    vLLM prints a rate for each position of its chain, so their number alone tells.
    """
    positions = {len(line.accept_by_position) for line in log.lines if line.accept_by_position}
    if len(positions) == 1:
        return positions.pop() + 1
    rated = _rated(log)
    settled = settle_convention(rated) if rated else None
    return settled.num_draft_tokens if settled else None


def width_of_most_lines(log: ServerLog) -> int | None:
    """Return the draft tokens (root included) that most lines of the log imply, others may contradict."""
    positions = Counter(len(line.accept_by_position) for line in log.lines if line.accept_by_position)
    if positions:
        width, lines = positions.most_common(1)[0]
        return width + 1 if 2 * lines > positions.total() else None
    return width_of_most(_rated(log))


def _rated(log: ServerLog) -> list[tuple[float, float]]:
    """Return accept length and rate of the lines that print both."""
    return [
        (line.accept_length, line.accept_rate)
        for line in log.lines
        if line.kind in ("decode", "spec_metrics")
        and line.accept_length is not None
        and line.accept_rate is not None
    ]


def log_cells(log: ServerLog, info: RunInfo) -> dict[CellKey, Configuration]:
    """Return one configuration per (batch, context bin, graph or not) of the log's steady windows."""
    plain = None if info.num_steps is None else info.num_steps == 0
    grouped: dict[CellKey, list[LogWindow]] = defaultdict(list)
    for window in steady_windows(log.lines, plain):
        grouped[_key(window, info)].append(window)
    return {key: _cell(key, windows, info) for key, windows in grouped.items()}


def _key(window: LogWindow, info: RunInfo) -> CellKey:
    context = info.context_tokens if info.context_tokens is not None else window.context_tokens
    return CellKey(window.batch_size, None, _steps(window, info), context_bin(context), window.graph)


def _steps(window: LogWindow, info: RunInfo) -> int | None:
    if info.num_steps is not None:
        return info.num_steps
    plain = window.accept_length is None and window.cycle_us is not None  # one token a cycle
    return 0 if plain else None


def _cell(key: CellKey, windows: list[LogWindow], info: RunInfo) -> Configuration:
    cycle_us = spread([window.cycle_us for window in windows if window.cycle_us is not None])
    measured = sum(w.tok_s for w in windows) / len(windows)
    context = info.context_tokens
    return Configuration(
        batch_size=key.batch_size,
        padded_batch_size=None,
        num_steps=key.num_steps,
        num_draft_tokens=1 if key.num_steps == 0 else info.num_draft_tokens,
        topk=info.topk,
        context_tokens=context if context is not None else mean_context([w.context_tokens for w in windows]),
        cycles=sum(window.request_cycles or 0 for window in windows) // (key.batch_size or 1),
        sources=("log",),
        cycle_us=cycle_us,
        cycle_source="log" if cycle_us else None,
        acceptance=from_log(windows, info.num_draft_tokens),
        throughput_tok_s=Throughput(measured=measured, measured_by="log"),
        graph=key.graph,
        notes=log_notes(windows, info.num_draft_tokens),
    )
