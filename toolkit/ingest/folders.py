"""Run folders, folders of run folders and single files as recordings; the reader is chosen by content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from toolkit.errors import BadInputError
from toolkit.ingest.client import read_client
from toolkit.ingest.file_kinds import FileKind, file_kind, require_readable
from toolkit.ingest.folder_tree import entries_of, folder_tree
from toolkit.ingest.forked import mapped
from toolkit.ingest.identity import completed_info, require_one_server
from toolkit.ingest.measurements import read_measurements
from toolkit.ingest.rank_traces import rank_traces, stem_of, windows_of, without_prefill_stages
from toolkit.ingest.run_files import RunFiles, files_of_run, kind_by_name, named
from toolkit.ingest.run_json import read_run_info
from toolkit.ingest.spans import read_spans
from toolkit.ingest.traces.chrome import TraceReader, read_traces
from toolkit.schema.log import ServerLog
from toolkit.schema.measurement import Measurement
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans

if TYPE_CHECKING:
    from toolkit.schema.calibration import Calibration

T = TypeVar("T")

_WORTH_SHARING_BYTES = 1 << 20  # of all files: below, forking takes longer than it saves
_ONE_OF_A_KIND: dict[FileKind, str] = {
    "run": "run.json files",
    "log": "server logs",
    "client": "clients' results",
    "calibration": "calibrations",
}


@dataclass(frozen=True, slots=True)
class _Found(Generic[T]):
    """What was made of one recording; `empty` where it holds no more than the name of its run."""

    made: T
    empty: bool
    warnings: tuple[str, ...]


@dataclass
class _Tree(Generic[T]):
    """What was found below one folder that was given."""

    top: Path
    found: list[_Found[T]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)  # that hold files
    empty: list[Path] = field(default_factory=list)
    without_run: list[Path] = field(default_factory=list)  # nor a folder of runs
    notes: list[str] = field(default_factory=list)  # on files of folders that hold no run
    refused: list[tuple[Path, BadInputError]] = field(default_factory=list)

    def left_out(self) -> list[str]:
        """Return a sentence on everything below the folder that is in no recording."""
        said = [f"run folder {folder} is left out: {error}" for folder, error in self.refused]
        for folders, why in ((self.empty, "empty"), (self.without_run, "without a run")):
            if folders:
                listed = named(str(folder) for folder in folders)
                said.append(f"{len(folders)} {'folder' if len(folders) == 1 else 'folders'} {why}: {listed}")
        return [*said, *self.notes]


def read_all(
    paths: Sequence[Path], *, trace_reader: TraceReader = read_traces
) -> tuple[list[Recording], tuple[str, ...]]:
    """Read everything under `paths` as recordings, one a run, in order of path; see `read_each`."""
    return read_each(paths, lambda recording: recording, trace_reader=trace_reader)


def read_each(
    paths: Sequence[Path], work: Callable[[Recording], T], *, trace_reader: TraceReader = read_traces
) -> tuple[list[T], tuple[str, ...]]:
    """Return what `work` makes of each recording under `paths`, one a run, in order of path.

    It is made by the process that read the recording, so that of many large runs the results alone come
    together. `trace_reader` reads the traces of a run: with a cache, on other machines.
    Below a folder of runs, a run folder that cannot be read is left out, and the sentences that are
    returned beside the recordings name it and say why. Raises BadInputError in one sentence for what
    was given by its own path and cannot be read: a path that does not exist, a run folder, a folder
    without a run that can be read, a file of no known kind, files of two servers in one folder.
    """
    made: list[T] = []
    left_out: list[str] = []
    singles: list[Path] = []
    seen: set[Path] = set()  # a folder may be given beside the one that holds it
    trees: list[_Tree[T]] = []
    for path in dict.fromkeys(paths):
        require_readable(path)
        if path.is_file():
            singles.append(path)
        else:
            trees.append(_tree(path))
    repeated = _repeated(trees)
    for tree in trees:
        again = _read_tree(tree, repeated, seen, trace_reader, work)
        if not again and all(one.empty for one in tree.found):
            raise _no_run(tree)
        made += [one.made for one in tree.found]
        left_out += tree.left_out()
    for files in _single_runs(singles):
        made += [work(recording) for recording in _read_files(files, None, trace_reader)]
    return made, tuple(left_out)


def _no_run(tree: _Tree[T]) -> BadInputError:
    """Return the error for a folder of which nothing can be read."""
    if len(tree.refused) == 1:
        return tree.refused[0][1]
    if tree.refused:
        return BadInputError(
            f"{tree.top} holds no run that can be read: {len(tree.refused)} run folders cannot, the first "
            f"because {tree.refused[0][1]}"
        )
    notes = [*tree.notes, *(note for one in tree.found for note in one.warnings)]
    why = f" ({'; '.join(notes)})" if notes else ""
    return BadInputError(
        f"{tree.top} holds no run: no trace, spans, log, client.json, calibration.json or measurements.csv "
        f"in it{why}; check the path"
    )


def _says_something(recording: Recording) -> bool:
    """Say whether a recording holds more than the name of its run."""
    parts = (recording.traces, recording.spans, recording.log, recording.client, recording.measurements)
    return any(parts) or recording.calibration is not None


def _tree(top: Path) -> _Tree[T]:
    """Return what lies below a folder that was given, before any of it is read."""
    found = folder_tree(top)
    return _Tree(top, folders=found.folders, empty=found.empty, notes=found.notes, refused=found.refused)


def _read_tree(
    tree: _Tree[T],
    repeated: Collection[str],
    seen: set[Path],
    trace_reader: TraceReader,
    work: Callable[[Recording], T],
) -> bool:
    """Read the folders of a tree that are not in `seen`; return whether one of them was."""
    again = False
    waiting: list[Path] = []
    for folder in tree.folders:
        if folder.resolve() in seen:
            again = True
            continue
        seen.add(folder.resolve())
        waiting.append(folder)
    sizes = [_size_bytes(folder) for folder in waiting]
    tried = partial(_tried, tree.top, repeated, trace_reader, work)
    found = mapped(tried, waiting, sizes, worth_sharing=_WORTH_SHARING_BYTES)
    holding = {above for folder in tree.folders for above in folder.parents}
    for folder, (made, notes, refused) in zip(waiting, found, strict=True):
        tree.notes += notes
        if refused is not None:
            tree.refused.append((folder, refused))
            continue
        tree.found += made or []
        if made is None and folder not in holding:
            tree.without_run.append(folder)
    return again


def _repeated(trees: Iterable[_Tree[T]]) -> frozenset[str]:
    """Return names that several folders have: one name for two runs would leave open which is meant."""
    places = {folder.resolve() for tree in trees for folder in tree.folders}
    return frozenset(name for name, count in Counter(place.name for place in places).items() if count > 1)


def _tried(
    top: Path,
    repeated: Collection[str],
    trace_reader: TraceReader,
    work: Callable[[Recording], T],
    folder: Path,
) -> tuple[list[_Found[T]] | None, list[str], BadInputError | None]:
    """Return what `work` makes of a folder's runs, sentences on it, and why it could not be read."""
    notes: list[str] = []
    try:
        recordings = _read_folder(folder, top, notes, trace_reader)
    except BadInputError as error:
        return None, notes, error
    if recordings is None:
        return None, notes, None
    if folder.name in repeated and folder != top:
        below = folder.relative_to(top)
        name = str(below if len(below.parts) > 1 else top.resolve().name / below)
        recordings = [replace(one, name=name) if one.name == folder.name else one for one in recordings]
    return [_Found(work(one), not _says_something(one), one.warnings) for one in recordings], notes, None


def _size_bytes(folder: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return 0


def _read_folder(
    folder: Path, top: Path, notes: list[str], trace_reader: TraceReader
) -> list[Recording] | None:
    """Read one folder; None where it holds no run, with sentences on its files added to `notes`.

    Files below `top` that claim nothing are not told one by one: their folder is.
    """
    files = files_of_run(entries_of(folder))
    without_prefill_stages(files)
    if files.measured:
        windows = windows_of(files)
        of_folder = folder if len(windows) == 1 else None
        return [one for window in windows for one in _read_files(window, of_folder, trace_reader)]
    if not files.of("run"):
        notes += files.notes() if folder == top else files.warnings
        return None
    files.warnings.append(f"{folder} holds a run.json but nothing that was measured")
    return _read_files(files, folder, trace_reader)


def _single_runs(paths: Iterable[Path]) -> list[RunFiles]:
    """Group single files into runs: traces and spans whose names differ in the rank alone are one."""
    runs: dict[tuple[Path, str], RunFiles] = {}
    for path in paths:
        kind = file_kind(path)
        if kind == "unknown":
            kind = kind_by_name(path) or ("table" if path.suffix == ".csv" else "unknown")
        _refuse(path, kind)
        stem = stem_of(path) if kind in ("trace", "spans") else path.name
        runs.setdefault((path.parent, stem), RunFiles()).add(path, kind)
    return list(runs.values())


def _refuse(path: Path, kind: FileKind) -> None:
    if kind == "empty":
        raise BadInputError(f"{path} is empty; record it again or leave it out")
    if kind == "damaged":
        raise BadInputError(
            f"{path} is damaged: its gzip stream holds nothing that can be read; copy or record it again"
        )
    if kind == "model":
        raise BadInputError(f"{path} is a fitted cost model, not a run; use it with toolkit predict --model")
    if kind == "result":
        raise BadInputError(
            f"{path} is what a toolkit command printed, not a run; give the run folder it was made from"
        )
    if kind in ("run", "gpu"):
        raise BadInputError(f"{path} describes a run but holds no measurement; give its folder {path.parent}")
    if kind == "unknown":
        raise BadInputError(
            f"{path} is no trace, spans file, server log, client.json, calibration.json or measurements.csv; "
            "check the path"
        )


def _read_files(files: RunFiles, folder: Path | None, trace_reader: TraceReader) -> list[Recording]:
    """Read the files of one run; a table alone gives a recording for each server in it."""
    rows, damage = _rows(files)
    if not any(files.of(kind) for kind in ("trace", "spans", "log", "client", "calibration", "run")):
        _require_something(files, folder, rows)
        return _table_recordings(rows, (*files.notes(), *damage), files.of("table")[0])
    for kind, of_kind in _ONE_OF_A_KIND.items():
        _require_one(files.of(kind), of_kind)
    given = next((read_run_info(path) for path in files.of("run")), RunInfo())
    traces = rank_traces(files, trace_reader)
    spans = _spans(files)
    log = _log(files)
    client = next((client for _, client in files.read("client", read_client)), None)
    calibration = _calibration(files)
    found = (part for part in (log, client, calibration) if part)
    _require_something(files, folder, (*traces, *spans, *rows, *found))
    where = folder or next(iter(files.by_kind.values()))[0]
    require_one_server(where, given, log, traces, spans)
    return [
        Recording(
            name=where.name or where.resolve().name,
            source=str(where),
            info=completed_info(given, log, rows),
            traces=traces,
            spans=spans,
            log=log,
            client=client,
            calibration=calibration,
            measurements=rows,
            warnings=(*files.notes(), *damage),
        )
    ]


def _require_something(files: RunFiles, folder: Path | None, found: Sequence[object]) -> None:
    """Raise what a reader refused, unless the folder's other files say something without it."""
    if files.refused and not (folder and found):
        raise files.refused[0]


def _require_one(paths: Sequence[Path], of_kind: str) -> None:
    if len(paths) > 1:
        raise BadInputError(
            f"{paths[1].parent} holds several {of_kind} ({paths[0].name}, {paths[1].name}); "
            "make a run folder for each"
        )


def _log(files: RunFiles) -> ServerLog | None:
    for path in files.of("log"):
        from toolkit.ingest.logs.server_log import read_server_log  # where there is one: it takes 20 ms

        return read_server_log(path)  # one of two servers is refused
    return None


def _calibration(files: RunFiles) -> Calibration | None:
    if not files.of("calibration"):
        return None
    from toolkit.ingest.calibration import read_calibration

    return next((one for _, one in files.read("calibration", read_calibration)), None)


def _spans(files: RunFiles) -> tuple[RankSpans, ...]:
    spans: dict[int, RankSpans] = {}
    for path, rank in files.read("spans", read_spans):
        other = spans.setdefault(rank.tp_rank, rank)
        if other is not rank:
            raise BadInputError(
                f"{path.parent} holds two spans files of rank {rank.tp_rank} "
                f"({Path(other.source).name}, {path.name}); make a run folder for each"
            )
    return tuple(spans[rank] for rank in sorted(spans))


def _rows(files: RunFiles) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    tables = [table for _, table in files.read("table", read_measurements)]
    rows = tuple(row for read, _ in tables for row in read)
    return rows, tuple(fault for _, faults in tables for fault in faults)


def _table_recordings(rows: Sequence[Measurement], warnings: tuple[str, ...], path: Path) -> list[Recording]:
    """Return one recording for each sweep and server of a table; rows of one never mix with another's."""
    by_server: dict[tuple[object, ...], list[Measurement]] = {}
    for row in rows:
        key = (row.sweep, row.engine, row.engine_version, row.model, row.gpu, row.tp_size)
        by_server.setdefault(key, []).append(row)
    if not by_server:
        why = "; ".join(warnings) or "it has a header and no row"
        raise BadInputError(f"{path} holds no usable row ({why}); correct its rows")
    recordings = []
    for number, own in enumerate(by_server.values()):
        name = path.stem if len(by_server) == 1 else str(own[0].sweep or f"{path.stem}-{number + 1}")
        recordings.append(
            Recording(
                name=name,
                source=str(path),
                info=completed_info(RunInfo(), None, own),
                measurements=tuple(own),
                warnings=warnings if not number else (),
            )
        )
    return recordings
