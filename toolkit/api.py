"""What notebooks and other tools call: read runs, inspect them, fit a model, ask it, check it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import BadInputError, UsageError
from toolkit.ingest.folders import read_all, read_each
from toolkit.ingest.traces.chrome import TraceReader, read_traces
from toolkit.schema.recording import Recording

if TYPE_CHECKING:
    from toolkit.analysis.accept_rate import readings as rate_readings
    from toolkit.schema.cost import CheckReport, CostModel
    from toolkit.schema.forecast import Forecast, Question, Scenario
    from toolkit.schema.inspection import Inspection, RunReport

    Runs = str | Path | Iterable[str | Path] | Sequence[Recording] | Inspection

__all__ = [
    "CheckReport",
    "CostModel",
    "Forecast",
    "Inspection",
    "Question",
    "Recording",
    "Scenario",
    "check",
    "fit",
    "inspect",
    "inspect_paths",
    "inspect_runs",
    "load_model",
    "log_lines",
    "predict",
    "predict_by_batch",
    "rate_readings",
    "read_runs",
    "save_model",
    "write_perfetto",
]


# Imported when they are first asked for: large traces are read at once, and the rest while they are.
_LAZY = {
    "rate_readings": ("toolkit.analysis.accept_rate", "readings"),
    "CheckReport": ("toolkit.schema.cost", "CheckReport"),
    "CostModel": ("toolkit.schema.cost", "CostModel"),
    "Forecast": ("toolkit.schema.forecast", "Forecast"),
    "Question": ("toolkit.schema.forecast", "Question"),
    "Scenario": ("toolkit.schema.forecast", "Scenario"),
    "Inspection": ("toolkit.schema.inspection", "Inspection"),
}


def __getattr__(name: str) -> object:
    """Return a name of `__all__` that another module defines."""
    if name not in _LAZY:
        raise AttributeError(f"module 'toolkit.api' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)


def read_runs(paths: str | Path | Iterable[str | Path], *, cache: bool = True) -> list[Recording]:
    """Read run folders, folders of run folders and single files; see `read_all` for errors.

    What had to be left out of a folder of runs is told as a Python warning. Large traces are kept as
    columns in the user's cache folder and need not be read again, unless `cache` is false.
    """
    several = [paths] if isinstance(paths, str | Path) else paths
    recordings, left_out = read_all([Path(path) for path in several], trace_reader=_trace_reader(cache))
    for sentence in left_out:
        warnings.warn(sentence, stacklevel=2)
    return recordings


def inspect(runs: Runs, *, offline_accuracy: float | None = None) -> Inspection:
    """Return where the time of each run's cycles goes: the records that `toolkit inspect` prints.

    `runs` is a path, several paths, or what `read_runs` returned. What had to be left out is told first
    in `warnings`.
    """
    from toolkit.schema.inspection import Inspection

    if isinstance(runs, Inspection):
        return runs
    several = [runs] if isinstance(runs, str | Path) else list(runs)
    recordings = [one for one in several if isinstance(one, Recording)]
    if recordings and len(recordings) == len(several):
        return _audited(inspect_runs(recordings), offline_accuracy)
    paths = [one for one in several if not isinstance(one, Recording)]
    if recordings:
        raise TypeError("inspect takes paths or recordings, not both at once")
    return inspect_paths(paths, offline_accuracy=offline_accuracy)


def fit(runs: Runs, *, seed: int = 0) -> CostModel:
    """Fit the cost model to runs, or to what `inspect` returned; `seed` is of the resampling."""
    from toolkit.model.fit import fit_cost_model

    return fit_cost_model(inspect(runs), seed=seed)


def check(model: CostModel | str | Path, runs: Runs) -> CheckReport:
    """Compare what a model predicts with runs that it was not fitted to."""
    from toolkit.model.check import check_model
    from toolkit.schema.cost import CostModel

    name = "" if isinstance(model, CostModel) else str(model)
    return check_model(_model(model), inspect(runs), name)


def predict(model: CostModel | str | Path, question: Question | None = None, **asked: Any) -> Forecast:
    """Return the forecast for a question, which may be given by its fields: `accept_rate=0.36, tp_size=2`.

    UndeterminedError where the runs do not determine what is asked, or where several groups fit.
    """
    from toolkit.recommend.answer import predict as answer
    from toolkit.schema.forecast import Question

    return answer(_model(model), _possible(replace(question or Question(), **asked)))


def predict_by_batch(
    model: CostModel | str | Path, batch_sizes: Iterable[int] = (), **asked: Any
) -> tuple[Forecast, ...]:
    """Return a forecast for each batch size that has an answer; without sizes, those of the fitted runs."""
    from toolkit.recommend.by_batch import forecasts_by_batch
    from toolkit.schema.forecast import Question

    sizes = tuple(batch_sizes)
    question = _possible(Question(**asked))
    for size in sizes:
        _possible(replace(question, batch_size=size))
    return forecasts_by_batch(_model(model), question, sizes)


_LEAST = {
    "batch_size": 1,
    "topk": 1,
    "tp_size": 1,
    "draft_tp": 1,
    "steps": 0,
    "context_tokens": 0,
    "current_steps": 0,
}


def _possible(question: Question) -> Question:
    """Return the question; UsageError where a count in it is none, as the command line's options say it."""
    for name, least in _LEAST.items():
        value = getattr(question, name)
        counts = value if isinstance(value, tuple | list) else () if value is None else (value,)
        if any(count < least for count in counts) or (name == "steps" and value is not None and not counts):
            raise UsageError(f"{name} is {value}; give whole numbers of at least {least}")
    return question


def load_model(path: str | Path) -> CostModel:
    """Return the cost model in a file; BadInputError if it is none or damaged."""
    from toolkit.ingest.model_file import read_cost_model

    return read_cost_model(Path(path))


def save_model(model: CostModel, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a cost model; an existing file is kept (UsageError) unless `overwrite`."""
    from toolkit.ingest.model_file import write_cost_model

    write_cost_model(Path(path), model, overwrite=overwrite)


def log_lines(path: str | Path) -> list[dict[str, Any]]:
    """Return what each line of a server log says, as plain objects in order."""
    from toolkit.ingest.logs.server_log import lines_as_json, read_log_lines

    return lines_as_json(read_log_lines(Path(path)))


def inspect_paths(
    paths: Iterable[str | Path],
    *,
    offline_accuracy: float | None = None,
    cache: bool = True,
    dask_address: str | None = None,
    while_reading: Callable[[], object] | None = None,
) -> Inspection:
    """Read and inspect in one call; what had to be left out is told first in `warnings`.

    With the draft head's `offline_accuracy` (0 to 1) each run also says whether it reaches what it should.
    `cache` as in `read_runs`; with `dask_address` the traces are read on that Dask cluster.
    `while_reading` is called while other processes read large traces, if they do: a place for imports.
    """
    reader = _trace_reader(cache, dask_address, while_reading)
    inspected, left_out = read_each([Path(path) for path in paths], _inspected, trace_reader=reader)
    found = _audited(_inspection(inspected), offline_accuracy)
    return replace(found, warnings=(*left_out, *found.warnings))


def write_perfetto(runs: Sequence[Recording], path: str | Path, *, overwrite: bool = False) -> None:
    """Write the traces of runs as one file for the Perfetto viewer; gzip when named .gz.

    BadInputError if none of the runs has a trace with kernels; an existing file is kept (UsageError)
    unless `overwrite`.
    """
    from toolkit.ingest.streamed_file import write_new_pieces
    from toolkit.report.perfetto.trace_file import perfetto_text

    if not any(len(trace.kernels) for run in runs for trace in run.traces):
        raise BadInputError(
            f"{path} is not written: no run has a trace with kernels; give the folder of a run that was "
            "profiled with --trace"
        )
    write_new_pieces(Path(path), perfetto_text(runs), overwrite=overwrite)


def inspect_runs(recordings: Sequence[Recording]) -> Inspection:
    """Return where each run's cycles spend their time.

    Raises BadInputError if the runs consist of traces alone and no trace holds a kernel.
    """
    return _inspection([_inspected(recording) for recording in recordings])


def _inspection(inspected: Sequence[tuple[RunReport, str | None]]) -> Inspection:
    from toolkit.schema.inspection import Inspection

    faults = [fault for _, fault in inspected if fault is not None]
    if inspected and len(faults) == len(inspected):
        raise BadInputError(faults[0])
    runs = tuple(run for run, _ in inspected)
    return Inspection(
        warnings=tuple(_of_run(run.run, note) for run in runs for note in run.warnings), runs=runs
    )


def _inspected(recording: Recording) -> tuple[RunReport, str | None]:
    """Return what is found in a run, and what is wrong if it is nothing but traces without the GPU."""
    from toolkit.analysis.inspect_run import inspect_recording

    if not _is_without_kernels(recording):
        return inspect_recording(recording), None
    notes = "; ".join(note for trace in recording.traces for note in trace.damage)
    move = "copy the file again, whole, or record it anew" if notes else "record it with CUDA activity on"
    return inspect_recording(recording), (
        f"{recording.source} has no GPU kernel in its trace{f' ({notes})' if notes else ''}; {move}"
    )


def _trace_reader(
    cache: bool, dask_address: str | None = None, while_reading: Callable[[], object] | None = None
) -> TraceReader:
    if dask_address is None:
        return partial(read_traces, cache=cache, meanwhile=while_reading)
    from toolkit.ingest.traces.on_dask import traces_on_dask

    return partial(traces_on_dask, dask_address, cache=cache)


def _model(model: CostModel | str | Path) -> CostModel:
    from toolkit.schema.cost import CostModel

    return model if isinstance(model, CostModel) else load_model(model)


def _audited(found: Inspection, offline_accuracy: float | None) -> Inspection:
    """Return the runs with an audit of their acceptance where the draft head's accuracy is given."""
    if offline_accuracy is None:
        return found
    from toolkit.analysis.acceptance_audit import audits, changes

    runs = tuple(replace(run, acceptance_audit=audits(run, offline_accuracy)) for run in found.runs)
    return replace(found, runs=runs, warnings=(*found.warnings, *changes(runs)))


def _of_run(run: str, note: str) -> str:
    """Return a note under its run's name, which a run of one file already bears."""
    return note if note.startswith(f"{run}: ") else f"{run}: {note}"


def _is_without_kernels(recording: Recording) -> bool:
    """Return whether a run is nothing but traces in which the GPU did not appear."""
    others = (recording.spans, recording.log, recording.client, recording.measurements)
    kernels = sum(len(trace.kernels) for trace in recording.traces)
    return bool(recording.traces) and not kernels and not any(others)
