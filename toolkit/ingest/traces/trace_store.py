"""One rank's trace in a file of columns, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from toolkit.ingest.traces.chrome_events import StreamResult
from toolkit.ingest.traces.column_file import Column, read_columns, write_columns
from toolkit.ingest.traces.event_rows import ANNOTATION, HOST, KERNEL
from toolkit.ingest.traces.merged_rows import MergedRows
from toolkit.ingest.traces.row_blocks import (
    DURATION,
    GROUP_SIZE,
    ID,
    LANE,
    MESSAGE_BYTES,
    NAME,
    NODE,
    START,
)
from toolkit.ingest.traces.trace_settings import base_time_ns, settings_of, text_of
from toolkit.schema.trace import Annotations, HostCalls, Int64s, Kernels, ProcessGroup, RankTrace

# The columns of each kind of event by the fields of its record.
_COMMON = {"name": NAME, "start_ns": START, "duration_ns": DURATION}
_FIELDS = {
    KERNEL: {
        **_COMMON,
        "correlation": ID,
        "stream": LANE,
        "group_size": GROUP_SIZE,
        "message_bytes": MESSAGE_BYTES,
        "node": NODE,
    },
    HOST: {**_COMMON, "correlation": ID, "thread": LANE},
    ANNOTATION: {**_COMMON, "thread": LANE},
}
_DTYPES = {NAME: "i4"}  # the others: eight bytes


def write_trace(
    file: BinaryIO, path: Path, rows: MergedRows, result: StreamResult, damage: Sequence[str]
) -> None:
    """Write what the analyses use of the trace at `path`, each kind of event in order of start."""
    base_ns = base_time_ns(result.top_level)
    columns: list[tuple[str, Callable[[], Iterator[Column]]]] = []
    for kind, fields in _FIELDS.items():
        order = rows.order(kind)
        for index in fields.values():
            blocks = partial(_blocks, rows, kind, index, order, base_ns if index == START else 0)
            columns.append((_DTYPES.get(index, "i8"), blocks))
    columns.append(("i4", partial(_places, rows)))
    header = {
        **settings_of(path, result.top_level),
        "names": [text_of(raw) for raw in rows.names],
        "event_count": result.events,
        "damage": list(damage),
    }
    write_columns(file, header, columns)


def _blocks(rows: MergedRows, kind: int, index: int, order: Int64s | None, base_ns: int) -> Iterator[Column]:
    for block in rows.sorted_column(kind, index, order):
        yield block + base_ns if base_ns else block


def _places(rows: MergedRows) -> Iterator[Column]:
    """Yield 0, 1, 2 and so on for the kernels, in blocks."""
    start = 0
    for block in rows.column(KERNEL, NAME):
        yield np.arange(start, start + len(block), dtype=np.int32)
        start += len(block)


def _written(nodes: Int64s) -> Int64s | None:
    """Return the nodes of kernels in their graphs; None where the profiler wrote none."""
    return nodes if len(nodes) and (nodes.strides[0] or nodes[0]) else None


def _taken(fields: Iterable[str], columns: Iterator[Column]) -> dict[str, Any]:
    """Return the next columns under the names of a record's fields."""
    return {name: next(columns) for name in fields}


def stored_trace(file: BinaryIO) -> RankTrace | None:
    """Return the trace that `write_trace` wrote; None if the file is not whole."""
    found = read_columns(file)
    if found is None:
        return None
    header, columns, pages = found
    following = iter(columns)
    kernels, calls, ranges = (_taken(fields, following) for fields in _FIELDS.values())
    header.pop("columns")
    groups = tuple(ProcessGroup(name, text, tuple(ranks)) for name, text, ranks in header["process_groups"])
    header |= {name: tuple(header[name]) for name in ("names", "damage")}
    return RankTrace(
        **{**header, "process_groups": groups},
        kernels=Kernels(
            **{**kernels, "node": _written(kernels["node"])}, place=next(following), release=pages
        ),
        host_calls=HostCalls(**calls),
        annotations=Annotations(**ranges),
    )
