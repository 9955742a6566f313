"""Columns of traces that were read before, in the user's cache folder: the second look need not read again.

A trace is known again without being read whole: by its name, size, inode, times of last change to
content and to inode (ns), and the bytes of its head, its tail and places between. Writing to a file
changes its times, the second of which no program can set; a file put in its place has another inode.
What was changed within the last seconds before it was read is not kept: one more change could bear
the same time. Entries of another version of the readers are never found, damaged ones are left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from toolkit import __version__
from toolkit.units import NS_PER_S

FEWEST_BYTES = 1 << 19  # of a trace on disk: a smaller one is read in no time
_MOST_BYTES = 2 << 30  # of all entries, about forty times as much in traces; the longest unused go first
_SETTLED_NS = 2 * NS_PER_S  # file systems note times as coarsely as this
_STALE_S = 3600  # what a process has been writing for longer was left behind
_SAMPLES = 16
_SAMPLE_BYTES = 1 << 12
_ENDS_BYTES = 1 << 16
_SUFFIX = ".columns"
_UNFINISHED = ".part"


def cache_folder() -> Path | None:
    """Return where entries lie on this platform; None where a user has no home."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and os.path.isabs(given):  # a relative one is to be ignored (XDG base directory specification)
        return Path(given) / "toolkit" / "traces"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "toolkit" / "Cache" / "traces"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "toolkit" / "traces"
    return home / ".cache" / "toolkit" / "traces"


@dataclass(frozen=True, slots=True)
class TraceCache:
    """A folder of entries, shared by any number of processes; every failure of it is a missing entry."""

    folder: Path
    most_bytes: int = _MOST_BYTES
    fewest_bytes: int = FEWEST_BYTES
    now_ns: Callable[[], int] = time.time_ns

    def key_of(self, path: Path) -> str | None:
        """Return what a trace is known by; None if it is too small to keep or cannot be looked at."""
        try:
            with open(path, "rb") as file:
                before = os.fstat(file.fileno())
                if before.st_size < self.fewest_bytes:
                    return None
                digest = blake2b(digest_size=20)
                digest.update(_readers_digest())
                facts = (before.st_size, before.st_mtime_ns, before.st_ctime_ns, before.st_ino, before.st_dev)
                digest.update(repr((path.name, facts)).encode("utf-8", "surrogateescape"))
                for offset, length in _looked_at(before.st_size):
                    file.seek(offset)
                    digest.update(file.read(length))
        except OSError:
            return None
        return digest.hexdigest()

    def open(self, key: str) -> BinaryIO | None:
        """Return the entry of that key, newly used; None if there is none."""
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            file = path.open("rb")
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)
        return file

    def keep(self, path: Path, key: str, write: Callable[[BinaryIO], None]) -> BinaryIO | None:
        """Write an entry and return it; None if it cannot be kept, or the trace no longer has `key`."""
        if not self._is_settled(path) or self.key_of(path) != key:
            return None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, unfinished = tempfile.mkstemp(suffix=_UNFINISHED, dir=self.folder)
        except OSError:
            return None
        file: BinaryIO = os.fdopen(handle, "w+b")
        try:
            write(file)
            os.replace(unfinished, self.folder / f"{key}{_SUFFIX}")
        except OSError:
            file.close()
            with suppress(OSError):
                os.unlink(unfinished)
            return None
        self._make_room()
        return file

    def _is_settled(self, path: Path) -> bool:
        try:
            found = path.stat()
        except OSError:
            return False
        return max(found.st_mtime_ns, found.st_ctime_ns) < self.now_ns() - _SETTLED_NS

    def _make_room(self) -> None:
        """Remove the entries that were unused longest until the rest fits, and what was left behind."""
        entries: list[tuple[int, int, str]] = []
        with suppress(OSError), os.scandir(self.folder) as found:
            for entry in found:
                with suppress(OSError):
                    facts = entry.stat()
                    if entry.name.endswith(_SUFFIX):
                        entries.append((facts.st_mtime_ns, facts.st_size, entry.path))
                    elif entry.name.endswith(_UNFINISHED) and self._is_stale(facts.st_mtime):
                        os.unlink(entry.path)
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries)[:-1]:  # the newest stays, however large
            if total <= self.most_bytes:
                return
            with suppress(OSError):
                os.unlink(path)
            total -= size

    def _is_stale(self, changed_s: float) -> bool:
        return changed_s < self.now_ns() / NS_PER_S - _STALE_S


def _looked_at(size: int) -> list[tuple[int, int]]:
    """Return offset and length of what is looked at of a file: its ends, and places spread between."""
    places = [(0, _ENDS_BYTES), (max(0, size - _ENDS_BYTES), _ENDS_BYTES)]
    return places + [(size * i // (_SAMPLES + 1), _SAMPLE_BYTES) for i in range(1, _SAMPLES + 1)]


@lru_cache(maxsize=1)
def _readers_digest() -> bytes:
    """Return what changes with any change to the code that makes entries."""
    digest = blake2b(__version__.encode(), digest_size=20)
    for source in sorted((*Path(__file__).parent.glob("*.py"), Path(__file__).parents[1] / "byte_chunks.py")):
        with suppress(OSError):
            digest.update(source.read_bytes())
    return digest.digest()
