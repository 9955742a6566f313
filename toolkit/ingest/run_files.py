"""Files of one run by kind; what is no part of it is told with its reason, and none is passed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from toolkit.errors import BadInputError
from toolkit.ingest.file_kinds import FileKind, file_kind
from toolkit.ingest.measurements import read_measurements

T = TypeVar("T")

_MOST_NAMED = 3  # stray files of a folder that a warning names
_NOT_OURS = frozenset({"README.md", "README", "LICENSE", "notes.md"})  # belong beside runs
_MEASURED: tuple[FileKind, ...] = ("trace", "spans", "log", "client", "table", "calibration")
# Names that say what a file should be: its own reader then says what is wrong with it.
_NAMED: tuple[tuple[re.Pattern[str], FileKind], ...] = (
    (re.compile(r"run\.json"), "run"),
    (re.compile(r"client\.json"), "client"),
    (re.compile(r"calibration\.json"), "calibration"),
    (re.compile(r"spans-.*\.jsonl(?:\.gz)?"), "spans"),
    (re.compile(r".*\.trace\.json(?:\.gz)?"), "trace"),
)
_WHY_STRAY: dict[FileKind, str] = {
    "model": "is a fitted cost model, no recording, and is left out; use it with toolkit predict --model",
    "result": "is what a toolkit command printed, no recording, and is left out",
    "empty": "is empty and is left out; record it again or remove it",
    "damaged": "is damaged and is left out: its gzip stream holds nothing that can be read; copy or record "
    "it again",
}


@dataclass
class RunFiles:
    """Files of one run by kind, and sentences on those that are no part of it."""

    by_kind: dict[FileKind, list[Path]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    strays: list[Path] = field(default_factory=list)
    refused: list[BadInputError] = field(default_factory=list)  # of readers that could not use a file

    def add(self, path: Path, kind: FileKind) -> None:
        """Note that `path` is of this run."""
        self.by_kind.setdefault(kind, []).append(path)

    def of(self, kind: FileKind) -> list[Path]:
        """Return the files of one kind."""
        return self.by_kind.get(kind, [])

    def read(self, kind: FileKind, reader: Callable[[Path], T]) -> list[tuple[Path, T]]:
        """Return the files of a kind that can be read, each with what it says; the others are `refused`."""
        found = []
        for path in self.of(kind):
            try:
                found.append((path, reader(path)))
            except BadInputError as error:
                self.refused.append(error)
        return found

    def read_together(
        self, kind: FileKind, reader: Callable[[Sequence[Path]], Sequence[T | BadInputError]]
    ) -> list[tuple[Path, T]]:
        """Do as `read` does with a reader of all files of a kind at once, which returns what it refuses."""
        found = []
        for path, read in zip(self.of(kind), reader(self.of(kind)), strict=True):
            if isinstance(read, BadInputError):
                self.refused.append(read)
            else:
                found.append((path, read))
        return found

    @property
    def measured(self) -> bool:
        """Whether a file here is of a kind that holds measurements."""
        return any(self.of(kind) for kind in _MEASURED)

    def notes(self) -> tuple[str, ...]:
        """Return the warnings, stray files named in one sentence if there are many."""
        refused = [f"left out: {error}" for error in self.refused]
        if len(self.strays) <= _MOST_NAMED:
            return (*self.warnings, *map(_stray, self.strays), *refused)
        many = (
            f"{len(self.strays)} files in {self.strays[0].parent} belong to no run and are left out "
            f"({named(path.name for path in self.strays)})"
        )
        return (*self.warnings, many, *refused)


def _stray(path: Path) -> str:
    if path.suffix == ".csv":
        try:
            read_measurements(path)
        except BadInputError as error:
            return f"left out: {error}"
    return (
        f"{path} is no trace, spans file, server log, client.json, calibration.json or table, belongs to no "
        "run and is left out"
    )


def files_of_run(paths: Iterable[Path]) -> RunFiles:
    """Sort the files of a folder by kind; one whose content says nothing counts by a name of ours."""
    files = RunFiles()
    for path in paths:
        if path.is_symlink() and not path.exists():
            files.warnings.append(f"{path} is a link to nothing and is left out; restore what it names")
        elif not path.is_file() and not path.is_dir():
            files.warnings.append(f"{path} is neither a file nor a folder and is left out; remove it")
        if not path.is_file() or path.name in _NOT_OURS:
            continue
        kind = file_kind(path)
        claimed = kind_by_name(path)
        if claimed == "run" or (claimed and kind == "unknown"):
            files.add(path, claimed)  # on run.json all else rests, so it is never passed over
        elif kind == "unknown":
            files.strays.append(path)
        elif kind in _WHY_STRAY:
            files.warnings.append(f"{path} {_WHY_STRAY[kind]}")
        else:
            files.add(path, kind)
    return files


def kind_by_name(path: Path) -> FileKind | None:
    """Return what a file's name says that it is, None for a name that says nothing."""
    return next((kind for pattern, kind in _NAMED if pattern.fullmatch(path.name)), None)


def named(names: Iterable[str]) -> str:
    """Return the first names of many and how many more there are."""
    every = list(names)
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
