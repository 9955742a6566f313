"""Run folders, folders of run folders and single files as recordings; the reader is chosen by content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.client import read_client
from toolkit.ingest.file_kinds import FileKind, file_kind, require_readable
from toolkit.ingest.identity import completed_info, require_one_server
from toolkit.ingest.logs.server_log import read_server_log
from toolkit.ingest.measurements import read_measurements
from toolkit.ingest.run_json import read_run_info
from toolkit.ingest.spans import read_spans
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.measurement import Measurement
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans
from toolkit.schema.trace import RankTrace

_DEEPEST = 4  # folders below the one given; a run folder has none
_MOST_NAMED = 3  # stray files of a folder that a warning names
_RANK_PART = re.compile(r"(?i)(?:tp|rank)[-_]?\d+")
_NOT_OURS = frozenset({"README.md", "README", "LICENSE", "notes.md"})  # belong beside runs
_MEASURED: tuple[FileKind, ...] = ("trace", "spans", "log", "client", "table")
_ONE_OF_A_KIND: dict[FileKind, str] = {
    "run": "run.json files",
    "log": "server logs",
    "client": "clients' results",
}


@dataclass
class _Files:
    """Files of one run by kind, and sentences on those that are no part of it."""

    by_kind: dict[FileKind, list[Path]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    strays: list[Path] = field(default_factory=list)

    def add(self, path: Path, kind: FileKind) -> None:
        self.by_kind.setdefault(kind, []).append(path)

    def of(self, kind: FileKind) -> list[Path]:
        return self.by_kind.get(kind, [])

    @property
    def measured(self) -> bool:
        return any(self.of(kind) for kind in _MEASURED)

    def notes(self) -> tuple[str, ...]:
        """Return the warnings, stray files named in one sentence if there are many."""
        if len(self.strays) <= _MOST_NAMED:
            return (*self.warnings, *(f"{path} belongs to no run and is left out" for path in self.strays))
        named = ", ".join(path.name for path in self.strays[:_MOST_NAMED])
        return (
            *self.warnings,
            f"{len(self.strays)} files in {self.strays[0].parent} belong to no run and are left out "
            f"({named} and {len(self.strays) - _MOST_NAMED} more)",
        )


def read_recordings(paths: Sequence[Path]) -> list[Recording]:
    """Read everything under `paths` as recordings, one a run, in order of path.

    Raises BadInputError in one sentence for a path that does not exist, a folder without a run, a file
    of no known kind, and files of two servers in one folder.
    """
    recordings: list[Recording] = []
    singles: list[Path] = []
    seen: set[Path] = set()  # a folder may be given beside the one that holds it
    for path in dict.fromkeys(paths):
        require_readable(path)
        if path.is_file():
            singles.append(path)
            continue
        found: list[Recording] = []
        notes: list[str] = []
        for folder in _run_folders(path):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                found += _read_folder(folder, notes)
        if not any(_says_something(recording) for recording in found) and not recordings:
            why = f" ({'; '.join(notes)})" if notes else ""
            raise BadInputError(
                f"{path} holds no run: no trace, spans, log, client.json or measurements.csv in it{why}; "
                "check the path"
            )
        recordings += found
    return recordings + [
        recording for files in _single_runs(singles) for recording in _read_files(files, None)
    ]


def _says_something(recording: Recording) -> bool:
    """Say whether a recording holds more than the name of its run."""
    parts = (recording.traces, recording.spans, recording.log, recording.client, recording.measurements)
    return any(parts)


def _run_folders(top: Path, depth: int = 0) -> Iterator[Path]:
    """Yield `top` and the folders below it that hold files, links to folders not followed."""
    entries = _entries(top)
    if any(entry.is_file() for entry in entries):
        yield top
    if depth < _DEEPEST:
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                yield from _run_folders(entry, depth + 1)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise BadInputError(f"{folder} cannot be listed ({error.strerror}); check its permissions") from None


def _read_folder(folder: Path, notes: list[str]) -> list[Recording]:
    """Read one folder; where it holds no run, sentences on its files are added to `notes`."""
    files = _Files()
    for path in _entries(folder):
        if not path.is_file() or path.name in _NOT_OURS:
            continue
        kind = file_kind(path)
        if kind in ("unknown", "model", "result"):
            files.strays.append(path)
        elif kind == "empty":
            files.warnings.append(f"{path} is empty")
        elif kind == "damaged":
            files.warnings.append(f"{path} is damaged: its gzip stream holds nothing that can be read")
        else:
            files.add(path, kind)
    if files.of("run") and not files.measured:
        files.warnings.append(f"{folder} holds a run.json but nothing that was measured")
    if not files.measured:
        notes += files.notes()
        if not files.of("run"):
            return []
    return _read_files(files, folder)


def _single_runs(paths: Iterable[Path]) -> list[_Files]:
    """Group single files into runs: traces and spans whose names differ in the rank alone are one."""
    runs: dict[tuple[Path, str], _Files] = {}
    for path in paths:
        kind = file_kind(path)
        _refuse(path, kind)
        stem = _RANK_PART.sub("*", path.name) if kind in ("trace", "spans") else path.name
        runs.setdefault((path.parent, stem), _Files()).add(path, kind)
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
            f"{path} is no trace, spans file, server log, client.json or measurements.csv; check the path"
        )


def _read_files(files: _Files, folder: Path | None) -> list[Recording]:
    """Read the files of one run; a table alone gives a recording for each server in it."""
    rows, damage = _rows(files)
    if not any(files.of(kind) for kind in ("trace", "spans", "log", "client", "run")):
        return _table_recordings(rows, (*files.notes(), *damage), files.of("table")[0])
    for kind, named in _ONE_OF_A_KIND.items():
        _require_one(files.of(kind), named)
    given = _run_info(files)
    traces = _traces(files, in_folder=folder is not None)
    spans = _spans(files)
    log = next((read_server_log(path) for path in files.of("log")), None)
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
            client=next((read_client(path) for path in files.of("client")), None),
            measurements=rows,
            warnings=(*files.notes(), *damage),
        )
    ]


def _require_one(paths: Sequence[Path], named: str) -> None:
    if len(paths) > 1:
        raise BadInputError(
            f"{paths[1].parent} holds several {named} ({paths[0].name}, {paths[1].name}); "
            "make a run folder for each"
        )


def _run_info(files: _Files) -> RunInfo:
    found = files.of("run")
    return read_run_info(found[0]) if found else RunInfo()


def _traces(files: _Files, in_folder: bool) -> tuple[RankTrace, ...]:
    """Read one trace a rank; one that cannot be read is left out with a warning if others can."""
    traces: dict[int, RankTrace] = {}
    refused: list[BadInputError] = []
    for path in files.of("trace"):
        try:
            trace = read_trace(path)
        except BadInputError as error:
            refused.append(error)
            continue
        other = traces.setdefault(trace.tp_rank, trace)
        if other is not trace:
            raise BadInputError(
                f"{path.parent} holds two traces of rank {trace.tp_rank} ({other.source}, {trace.source}), "
                "of two servers or two windows; make a run folder for each"
            )
    others = traces or any(files.of(kind) for kind in _MEASURED if kind != "trace")
    if refused and not (in_folder and others):
        raise refused[0]
    files.warnings += [f"left out: {error}" for error in refused]
    return tuple(traces[rank] for rank in sorted(traces))


def _spans(files: _Files) -> tuple[RankSpans, ...]:
    spans: dict[int, RankSpans] = {}
    for path in files.of("spans"):
        rank = read_spans(path)
        other = spans.setdefault(rank.tp_rank, rank)
        if other is not rank:
            raise BadInputError(
                f"{path.parent} holds two spans files of rank {rank.tp_rank} "
                f"({Path(other.source).name}, {path.name}); make a run folder for each"
            )
    return tuple(spans[rank] for rank in sorted(spans))


def _rows(files: _Files) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    rows: list[Measurement] = []
    damage: list[str] = []
    for path in files.of("table"):
        read, faults = read_measurements(path)
        rows += read
        damage += faults
    return tuple(rows), tuple(damage)


def _table_recordings(rows: Sequence[Measurement], warnings: tuple[str, ...], path: Path) -> list[Recording]:
    """Return one recording for each sweep and server of a table; rows of one never mix with another's."""
    by_server: dict[tuple[object, ...], list[Measurement]] = {}
    for row in rows:
        key = (row.sweep, row.engine, row.engine_version, row.model, row.gpu, row.tp_size)
        by_server.setdefault(key, []).append(row)
    if not by_server:
        why = "; ".join(warnings) or "it has a header and no row"
        raise BadInputError(f"{path} holds no usable row ({why})")
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
