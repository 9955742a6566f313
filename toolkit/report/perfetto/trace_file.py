"""One Chrome JSON file of all ranks of all runs, in pieces of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from toolkit.analysis.trace.collectives import phase_parts
from toolkit.analysis.trace.trace_view import TraceView, trace_view
from toolkit.report.perfetto.rank_tracks import rank_tracks
from toolkit.report.perfetto.tracks import named_process, track_events
from toolkit.schema.recording import Recording

_FIRST_THREAD = 1


def perfetto_text(recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield the file: a process for each rank, a thread for each track, times after the first event.

    Ranks of a run are on the first one's clock. Runs follow their own clocks and begin together.
    """
    yield '{"displayTimeUnit":"ms","otherData":' + json.dumps({"runs": [one.name for one in recordings]})
    yield ',"traceEvents":[\n'
    separator, process = "", 1
    for recording in recordings:
        view = trace_view(recording.traces)
        if view is None:
            continue
        for event in _run(view, recording, process):
            yield f"{separator}{event}"
            separator = ",\n"
        process += len(view.traces)
    yield "\n]}\n"


def _run(view: TraceView, recording: Recording, first_process: int) -> Iterator[str]:
    splits = {name: phase_parts(view, name, view.aligned) for name in view.graphs}
    steps = recording.info.num_steps
    forwards = steps - 1 if steps and steps > 1 else None
    base_ns = min(int(trace.kernels.start_ns[0]) for trace in view.traces) - _slack_ns(view)
    for position, rank in enumerate(view.ranks):
        process = first_process + position
        own = "" if position in view.compared else ", on a clock of its own"
        yield from named_process(process, f"rank {rank.tp_rank}, {recording.name}{own}")
        thread = _FIRST_THREAD
        for track in rank_tracks(view, position, splits, forwards):
            events, rows = track_events(track, process, thread, base_ns)
            yield from events
            thread += rows


def _slack_ns(view: TraceView) -> int:
    """Return by how much a clock may move a kernel ahead of the first one."""
    return max((abs(round(clock.offset_ns)) + 1_000 for clock in view.clocks if clock), default=0)
