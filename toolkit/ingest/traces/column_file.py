"""The columns of one trace in one file, mapped into memory where they are used.

Columns first, then a JSON header, then what finds and checks both: whoever writes need not know
lengths before, and a file that was cut or changed is told by its checksum.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from toolkit.ingest.byte_chunks import checksum

Column = NDArray[Any]
_MAGIC = b"tkcols2\n"
_FOOTER = struct.Struct("<QI8s")  # length of the header, checksum of all before, magic
_ALIGNED_BYTES = 64
_READ_BYTES = 1 << 20


class _Writer:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.written = 0
        self.check = 0

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.written += len(view)
        self.check = checksum(view, self.check)


def write_columns(
    file: BinaryIO, header: dict[str, Any], columns: Iterable[tuple[str, Callable[[], Iterator[Column]]]]
) -> None:
    """Write columns, each given as its dtype and a way to go through its blocks.

    Of a column that has one value throughout the value alone is written.
    """
    writer = _Writer(file)
    places: list[dict[str, Any]] = []
    for dtype, blocks in columns:
        writer.write(b"\0" * (-writer.written % _ALIGNED_BYTES))
        only = _only_value(blocks())
        place: dict[str, Any] = {"dtype": dtype, "offset": writer.written, "rows": 0, "only": only}
        for block in blocks():
            place["rows"] += len(block)
            if only is None:
                writer.write(np.ascontiguousarray(block, dtype=dtype).data)
        places.append(place)
    text = json.dumps({**header, "columns": places}).encode()  # ASCII: names may hold lone surrogates
    writer.write(text)
    file.write(_FOOTER.pack(len(text), writer.check, _MAGIC))
    file.flush()


def _only_value(blocks: Iterator[Column]) -> int | None:
    only: int | None = None
    for block in blocks:
        first = int(block[0])
        if (only is not None and first != only) or (block != first).any():
            return None
        only = first
    return only


@dataclass(frozen=True, slots=True)
class MappedPages:
    """Memory that mirrors a file; called, it gives back what was read of it, to be read again when used.

    A copy that was sent to another process holds its columns by value and has nothing to give back.
    """

    mapped: mmap.mmap | None = None

    def __call__(self) -> None:
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[type[MappedPages], tuple[()]]:
        return MappedPages, ()


def read_columns(file: BinaryIO) -> tuple[dict[str, Any], list[Column], MappedPages] | None:
    """Return header and columns of a file that `write_columns` wrote; None if it is not whole."""
    header = _checked_header(file)
    if header is None:
        return None
    if isinstance(file, BytesIO):
        buffer: Any = file.getvalue()
        pages = MappedPages()
    else:
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        pages = MappedPages(buffer)
    columns: list[Column] = []
    for place in header["columns"]:
        if not place["rows"]:
            columns.append(np.zeros(0, dtype=place["dtype"]))
        elif place["only"] is not None:
            value = np.array(place["only"], dtype=place["dtype"])
            columns.append(np.broadcast_to(value, place["rows"]))
        else:
            columns.append(np.frombuffer(buffer, place["dtype"], place["rows"], place["offset"]))
    return header, columns, pages


def _checked_header(file: BinaryIO) -> dict[str, Any] | None:
    """Return the header if the file's end and its checksum are right; its bytes are not kept in memory."""
    size = file.seek(0, 2)
    if size < _FOOTER.size:
        return None
    file.seek(size - _FOOTER.size)
    length, check, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    end = size - _FOOTER.size
    if magic != _MAGIC or length > end:
        return None
    file.seek(0)
    found, at = 0, 0
    while at < end and (piece := file.read(min(_READ_BYTES, end - at))):
        found = checksum(memoryview(piece), found)
        at += len(piece)
    if found != check:
        return None
    file.seek(end - length)
    header: dict[str, Any] = json.loads(file.read(length))
    return header
