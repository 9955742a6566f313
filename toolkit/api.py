"""What notebooks and other tools call: read runs, inspect them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.analysis.acceptance_audit import audits, changes
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.errors import BadInputError
from toolkit.ingest.folders import read_all
from toolkit.ingest.forked import mapped
from toolkit.ingest.logs.server_log import lines_as_json, read_log_lines
from toolkit.schema.inspection import Inspection
from toolkit.schema.recording import Recording

_WORTH_SHARING_KERNELS = 20_000  # of all runs: below, forking takes longer than it saves


def read_runs(paths: Iterable[str | Path]) -> list[Recording]:
    """Read run folders, folders of run folders and single files; see `read_all` for errors.

    What had to be left out of a folder of runs is told as a Python warning.
    """
    recordings, left_out = read_all([Path(path) for path in paths])
    for sentence in left_out:
        warnings.warn(sentence, stacklevel=2)
    return recordings


def inspect_runs(recordings: Sequence[Recording]) -> Inspection:
    """Return where each run's cycles spend their time.

    Raises BadInputError if the runs consist of traces alone and no trace holds a kernel.
    """
    if recordings and all(map(_is_without_kernels, recordings)):
        notes = "; ".join(note for trace in recordings[0].traces for note in trace.damage)
        raise BadInputError(
            f"{recordings[0].source} has no GPU kernel in its trace{f' ({notes})' if notes else ''}; "
            "record it with CUDA activity on"
        )
    sizes = [sum(len(trace.kernels) for trace in recording.traces) for recording in recordings]
    runs = tuple(mapped(inspect_recording, recordings, sizes, worth_sharing=_WORTH_SHARING_KERNELS))
    return Inspection(
        warnings=tuple(_of_run(run.run, note) for run in runs for note in run.warnings), runs=runs
    )


def _of_run(run: str, note: str) -> str:
    """Return a note under its run's name, which a run of one file already bears."""
    return note if note.startswith(f"{run}: ") else f"{run}: {note}"


def _is_without_kernels(recording: Recording) -> bool:
    """Return whether a run is nothing but traces in which the GPU did not appear."""
    others = (recording.spans, recording.log, recording.client, recording.measurements)
    kernels = sum(len(trace.kernels) for trace in recording.traces)
    return bool(recording.traces) and not kernels and not any(others)


def inspect_paths(paths: Iterable[str | Path], *, offline_accuracy: float | None = None) -> Inspection:
    """Read and inspect in one call; what had to be left out is told first in `warnings`.

    With the draft head's `offline_accuracy` (0 to 1) each run also says whether it reaches what it should.
    """
    recordings, left_out = read_all([Path(path) for path in paths])
    found = inspect_runs(recordings)
    if offline_accuracy is not None:
        runs = tuple(replace(run, acceptance_audit=audits(run, offline_accuracy)) for run in found.runs)
        found = replace(found, runs=runs, warnings=(*found.warnings, *changes(runs)))
    return replace(found, warnings=(*left_out, *found.warnings))


def log_lines(path: str | Path) -> list[dict[str, Any]]:
    """Return what each line of a server log says, as plain objects in order."""
    return lines_as_json(read_log_lines(Path(path)))
