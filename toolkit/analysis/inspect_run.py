"""One recording in, one report out: where a cycle's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolkit.analysis.cells.client_cells import client_cells
from toolkit.analysis.cells.join import join_cells
from toolkit.analysis.cells.log_cells import log_cells, log_draft_tokens
from toolkit.analysis.cells.span_cells import span_cells
from toolkit.analysis.cells.table_cells import repeats_a_line, table_cells
from toolkit.analysis.cells.trace_cells import trace_cells
from toolkit.analysis.collective_health import collectives_agree, timed_ranks
from toolkit.analysis.graph_health import graphs_replayed
from toolkit.analysis.health import health_checks
from toolkit.analysis.trace.annotations import engine_of
from toolkit.analysis.trace.collectives import observed_draft_tp
from toolkit.analysis.trace.trace_view import TraceView, trace_view
from toolkit.schema.inspection import Configuration, HealthCheck, RunReport
from toolkit.schema.measurement import Measurement
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo


def inspect_recording(recording: Recording) -> RunReport:
    """Analyse one run from all its sources."""
    info, notes = _completed(recording)
    view = trace_view(recording.traces)
    usable = view if view and not view.irregular else None
    timed, left_out = span_cells(recording.spans, info)
    traced = trace_cells(usable, info) if usable else {}
    logged = log_cells(recording.log, info) if recording.log else {}
    counted = client_cells(recording.client, info) if recording.client else {}
    cells = join_cells([timed, logged, traced, counted])
    rows, repeated = _rows(recording)
    cells += table_cells(rows)
    checked = (
        timed_ranks(recording.spans, cells, info.tp_size),
        collectives_agree(timed, traced),
        graphs_replayed(info, cells),
    )
    health = (*health_checks(recording, view, cells), *(check for check in checked if check))
    said = (*notes, *repeated, *left_out)
    draft_tp, draft_tp_source = _draft_tp(cells, info)
    return RunReport(
        run=recording.name,
        engine=info.engine,
        engine_version=info.engine_version,
        model=info.model,
        gpu=info.gpu,
        tp_size=info.tp_size,
        draft_tp=draft_tp,
        draft_tp_source=draft_tp_source,
        num_steps=_common([cell.num_steps for cell in cells], info.num_steps),
        topk=_common([cell.topk for cell in cells], info.topk),
        num_draft_tokens=_common([cell.num_draft_tokens for cell in cells], info.num_draft_tokens),
        sources=tuple(dict.fromkeys(source for cell in cells for source in cell.sources)),
        acceptance_kind=info.acceptance,
        overlap_schedule=info.overlap_schedule,
        with_stack=info.with_stack,
        backend=info.backend,
        heads=_sizes(info).get("heads"),
        draft_model=info.draft_model,
        ended_early=_ended_early(info),
        model_sizes=_sizes(info),
        calibration=recording.calibration,
        graph_sizes=info.graph_sizes or _graph_sizes(info),
        largest_graph=info.largest_graph,
        configurations=tuple(cells),
        health=health,
        warnings=(*recording.warnings, *said, *_warnings(recording, view, health, info, cells)),
    )


def _graph_sizes(info: RunInfo) -> tuple[int, ...]:
    """Return the captured sizes that whoever took the run noted beside it."""
    noted = info.captured.get(
        "cuda_graph_sizes_tokens" if info.engine == "vllm" else "cuda_graph_batch_sizes"
    )
    sizes = noted if isinstance(noted, list) else []
    whole = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0]
    return tuple(sorted(set(whole)))


def _rows(recording: Recording) -> tuple[list[Measurement], list[str]]:
    """Return the rows of the table that no line of the log says too, and a note on the others."""
    rows = [
        row
        for row in recording.measurements
        if not (recording.log and repeats_a_line(row, recording.log.lines))
    ]
    repeated = len(recording.measurements) - len(rows)
    if not repeated:
        return rows, []
    alike = "1 row of the table repeats a line of the log and is"
    if repeated > 1:
        alike = f"{repeated} rows of the table repeat lines of the log and are"
    return rows, [f"{alike} counted once"]


def _completed(recording: Recording) -> tuple[RunInfo, list[str]]:
    """Return the run's facts with those that its traces and log lines imply, and notes on them."""
    info = recording.info
    notes: list[str] = []
    traces = recording.traces
    if traces:
        engines = {engine_of(trace.names) for trace in traces} - {None}
        worlds = {trace.world_size for trace in traces if trace.world_size}
        stacked = any(trace.with_stack for trace in traces)
        info = replace(
            info,
            engine=info.engine or (engines.pop() if len(engines) == 1 else None),
            gpu=info.gpu or next((trace.gpu for trace in traces if trace.gpu), None),
            tp_size=info.tp_size
            if info.tp_size is not None
            else (worlds.pop() if len(worlds) == 1 else None),
            with_stack=stacked if info.with_stack is None else info.with_stack,
        )
    if recording.log and info.num_draft_tokens is None:
        width = log_draft_tokens(recording.log)
        if width is not None:
            chain = info.topk in (None, 1) and info.num_steps is None
            info = replace(info, num_draft_tokens=width, num_steps=width - 1 if chain else info.num_steps)
            notes.append(
                f"the log's lengths and rates imply {width} draft tokens"
                + (f", taken as a chain of {width - 1} steps" if chain else "")
            )
    return info, notes


def _sizes(info: RunInfo) -> dict[str, int]:
    """Return the target's sizes, as run.json has them of its config.json."""
    shape = info.captured.get("model_shape")
    if not isinstance(shape, dict):
        return {}
    return {name: size for name, size in shape.items() if type(size) is int and size > 0}


def _ended_early(info: RunInfo) -> str | None:
    why = info.captured.get("ended_early")
    return why if isinstance(why, str) and why else None


def _draft_tp(cells: Sequence[Configuration], info: RunInfo) -> tuple[int | None, str | None]:
    """Return the draft's TP size that its collectives prove, else the one asked for, and which it is."""
    for cell in cells:
        phases = {name for rank in cell.ranks for name in rank.phases}
        seen = observed_draft_tp(cell.collectives, phases, info.tp_size) if "trace" in cell.sources else None
        if seen is not None:
            return seen, "collectives"
    return info.draft_tp, None if info.draft_tp is None else "run.json"


def _common(values: Sequence[int | None], known: int | None) -> int | None:
    found = {value for value in values if value is not None}
    return found.pop() if known is None and len(found) == 1 else known


def _warnings(
    recording: Recording,
    view: TraceView | None,
    health: Sequence[HealthCheck],
    info: RunInfo,
    cells: Sequence[Configuration],
) -> list[str]:
    """Return the failed checks as sentences, and what the files cannot say."""
    warnings = [check.detail for check in health if check.ok is False]
    observed, source = _draft_tp(cells, info)
    if source == "collectives" and info.draft_tp is not None and observed != info.draft_tp:
        warnings.append(
            f"the draft runs at TP {observed} by its collectives, not at the TP {info.draft_tp} asked for"
        )
    if view and view.irregular:
        warnings.append("phases are not given, because the pattern of launches does not repeat")
    return warnings
