"""A file's bytes in chunks, inflated on the way; damage ends the stream and is reported, never raised."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError

CHUNK_BYTES = 8 << 20
_READ_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's code for a gzip header and a 32 KB window


def _fastest_zlib() -> Any:
    """Return isal's zlib, about three times faster, or the standard one where it has no wheel."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


_ZLIB = _fastest_zlib()


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


def _pieces(path: Path, damage: list[str]) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            head = file.read(_READ_BYTES)
            if head.startswith(_GZIP_MAGIC):
                yield from _inflated(path, head, file, damage)
                return
            while head:
                yield head
                head = file.read(_READ_BYTES)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror or error}); check the path") from None


def _inflated(path: Path, head: bytes, file: Any, damage: list[str]) -> Iterator[bytes]:
    inflater = _ZLIB.decompressobj(_GZIP_WINDOW)
    raw = head
    while raw:
        try:
            piece = inflater.decompress(raw)
        except (zlib.error, _ZLIB.error):
            damage.append(f"{path.name}: the gzip stream is corrupt; what came before it was read")
            return
        if piece:
            yield piece
        if inflater.eof:
            raw = inflater.unused_data or file.read(_READ_BYTES)  # another member, or padding
            if not raw.startswith(_GZIP_MAGIC):
                return
            inflater = _ZLIB.decompressobj(_GZIP_WINDOW)
            continue
        raw = file.read(_READ_BYTES)
    if not inflater.eof:
        damage.append(f"{path.name}: the gzip stream ends early; what came before the cut was read")
