"""A file's bytes in chunks, inflated on the way; damage ends the stream and is reported, never raised."""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from toolkit.errors import BadInputError

CHUNK_BYTES = 1 << 20  # fits a core's cache: larger ones are read more slowly
_READ_BYTES = 1 << 20
_MOST_INFLATED_BYTES = 8 << 20  # at once: a few bytes may hold gigabytes
_CAREFUL_BYTES = 1 << 16  # of a corrupt stream: what is fed at once, then again byte by byte
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's code for a gzip header and a 32 KB window


def _fastest_zlib() -> Any:
    """Return isal's zlib, about three times faster, or the standard one where it has no wheel."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


_ZLIB = _fastest_zlib()


class _CorruptError(Exception):
    """A gzip stream holds something that no compressor wrote."""


def read_chunks(path: Path, damage: list[str], chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the content of `path`, gzip inflated, in pieces of about `chunk_bytes`.

    A stream that is cut or corrupt ends early, and a sentence about it is appended to `damage`.
    Raises BadInputError if the file cannot be opened.
    """
    parts: list[bytes] = []
    size = 0
    for piece in _pieces(path, damage):
        parts.append(piece)
        size += len(piece)
        if size >= chunk_bytes:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def read_range(path: Path, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes of a file that is not packed from `start` to `stop`, in chunks.

    Raises BadInputError if the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            file.seek(start)
            while start < stop and (piece := file.read(min(CHUNK_BYTES, stop - start))):
                start += len(piece)
                yield piece
    except OSError as error:
        raise _unreadable(path, error) from None


def checksum(data: memoryview, before: int = 0) -> int:
    """Return the CRC-32 of `data` behind what has the checksum `before`."""
    return int(_ZLIB.crc32(data, before))


def _unreadable(path: Path, error: OSError) -> BadInputError:
    return BadInputError(f"{path} cannot be read ({error.strerror or error}); check the path")


def _pieces(path: Path, damage: list[str]) -> Iterator[bytes]:
    try:
        with open(path, "rb") as opened:
            file = _AsOpened(opened)
            head = file.read(len(_GZIP_MAGIC))
            file.seek(0)
            if head == _GZIP_MAGIC:
                yield from _inflated(path, file, damage)
                return
            while piece := file.read(_READ_BYTES):
                yield piece
    except OSError as error:
        raise _unreadable(path, error) from None


class _AsOpened:
    """A file as long as it was when it was opened: one that is written faster than read would never end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size or None  # files of the system have no size

    def read(self, count: int) -> bytes:
        """Return the next bytes, at most `count`; none at the end."""
        if self._size is not None:
            count = min(count, max(0, self._size - self._file.tell()))
        return self._file.read(count)

    def seek(self, place: int) -> None:
        """Go on reading at a place."""
        self._file.seek(place)


def _inflated(path: Path, file: _AsOpened, damage: list[str]) -> Iterator[bytes]:
    """Yield all that a gzip file holds, up to the first corrupt byte if there is one."""
    sent = 0
    notes: list[str] = []
    try:
        for piece in _members(file, lambda: _ZLIB.decompressobj(_GZIP_WINDOW), _READ_BYTES, notes):
            sent += len(piece)
            yield piece
    except (zlib.error, _ZLIB.error):
        yield from _before_corruption(file, sent)
        notes = ["the gzip stream is corrupt; what came before it was read"]
    damage += [f"{path.name}: {note}" for note in notes]


def _members(
    file: _AsOpened, inflater_of: Callable[[], Any], read_bytes: int, notes: list[str]
) -> Iterator[bytes]:
    """Yield what the members of a gzip file hold; a sentence is added to `notes` where they end wrongly."""
    inflater = inflater_of()
    raw = file.read(read_bytes)
    more = False  # is inflated already, and waits
    while raw or more:
        piece = inflater.decompress(raw, _MOST_INFLATED_BYTES)
        if piece:
            yield piece
        if not inflater.eof:
            raw = inflater.unconsumed_tail or file.read(read_bytes)
            more = len(piece) >= _MOST_INFLATED_BYTES
            continue
        more = False
        raw = inflater.unused_data
        if len(raw) < len(_GZIP_MAGIC):
            raw += file.read(read_bytes)
        if not raw.startswith(_GZIP_MAGIC):
            if raw.strip(b"\0"):  # zeros pad a last block
                notes.append("bytes that are not gzip follow the gzip stream; they were left out")
            return
        inflater = inflater_of()
    notes.append("the gzip stream ends early; what came before the cut was read")


class _Careful:
    """Inflates with the standard library, whose state can be copied, up to the very byte that is corrupt."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)
        self.rest = b""  # what came out of the last piece before the corrupt byte

    def decompress(self, raw: bytes, most: int) -> bytes:
        before = self._inflater.copy()
        try:
            return self._inflater.decompress(raw, most)
        except zlib.error:
            self.rest = self._byte_by_byte(before, raw)
            raise _CorruptError from None

    @staticmethod
    def _byte_by_byte(inflater: Any, raw: bytes) -> bytes:
        inflated: list[bytes] = []
        try:
            for at in range(len(raw)):
                inflated.append(inflater.decompress(raw[at : at + 1]))
        except zlib.error:
            pass
        return b"".join(inflated)

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unconsumed_tail(self) -> bytes:
        return self._inflater.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data


def _before_corruption(file: _AsOpened, sent: int) -> Iterator[bytes]:
    """Yield what a corrupt file holds beyond the first `sent` bytes that were inflated already."""
    file.seek(0)
    inflaters: list[_Careful] = []

    def inflater_of() -> _Careful:
        inflaters.append(_Careful())
        return inflaters[-1]

    skip = sent
    try:
        for piece in _members(file, inflater_of, _CAREFUL_BYTES, []):
            if len(piece) > skip:
                yield piece[skip:]
            skip = max(0, skip - len(piece))
    except _CorruptError:
        yield inflaters[-1].rest[skip:]
