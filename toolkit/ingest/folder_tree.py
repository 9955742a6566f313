"""The folders below one that was given, links to run folders included; nothing is passed over in silence."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.run_files import named

_DEEPEST = 4  # folders below the one given; a run folder has none
_MOST_FOLDERS = 20_000  # a link may lead to a whole disk


@dataclass
class FolderTree:
    """Folders that hold files, empty ones, those not listed; sentences on what was not followed."""

    folders: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    refused: list[tuple[Path, BadInputError]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def folder_tree(top: Path) -> FolderTree:
    """Return the folders below `top`, each once; of a linked folder the folder itself, none below it.

    So a link may name a run that lies elsewhere, but leads neither in circles nor over a whole disk.
    """
    tree = FolderTree()
    deeper: list[Path] = []
    waiting = [(top, 0)]
    known = {_place(top)}
    while waiting and len(known) < _MOST_FOLDERS:
        folder, depth = waiting.pop()
        try:
            entries = entries_of(folder)
        except BadInputError as error:
            if folder == top:
                raise
            tree.refused.append((folder, error))
            continue
        if any(entry.is_file() for entry in entries):
            tree.folders.append(folder)
        elif not entries and folder != top:
            tree.empty.append(folder)
        below = [entry for entry in entries if entry.is_dir()]
        if depth >= _DEEPEST:
            deeper += [entry for entry in below if _place(entry) not in known]
            continue
        following: list[tuple[Path, int]] = []
        for entry in sorted(
            below, key=lambda entry: (entry.is_symlink(), entry)
        ):  # the folder before links to it
            if (place := _place(entry)) not in known:
                known.add(place)
                following.append((entry, _DEEPEST if entry.is_symlink() else depth + 1))
        waiting += sorted(following, reverse=True)
    if deeper or waiting:
        left = [*deeper, *(folder for folder, _ in waiting)]
        tree.notes.append(
            f"{len(left)} folders lie too deep or behind a link and are left out: "
            f"{named(str(folder) for folder in left)}; give their own paths"
        )
    return tree


def _place(folder: Path) -> tuple[int, int]:
    """Return what makes two paths one folder."""
    try:
        found = folder.stat()
    except OSError:
        return (0, hash(folder))
    return (found.st_dev, found.st_ino)


def entries_of(folder: Path) -> list[Path]:
    """Return what a folder holds, hidden entries aside, in order of name."""
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise BadInputError(f"{folder} cannot be listed ({error.strerror}); check its permissions") from None
