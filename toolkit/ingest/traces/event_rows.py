"""The events that are used, as rows of integers; all others are forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from toolkit.ingest.traces.chrome_events import Event, EventArgs
from toolkit.ingest.traces.event_numbers import integers, many_ns, ns, whole
from toolkit.ingest.traces.row_blocks import (
    COLUMNS,
    DURATION,
    GROUP_SIZE,
    ID,
    LANE,
    MESSAGE_BYTES,
    NAME,
    NODE,
    START,
    RowBlocks,
)
from toolkit.ingest.traces.typed_events import CALLS, KERNELS, NO_LANE, RANGES, USED, TypedArgs, decode
from toolkit.schema.trace import Int64s
from toolkit.units import NS_PER_S

KERNEL, HOST, ANNOTATION = 0, 1, 2
_CATEGORY = {
    "kernel": KERNEL,
    "gpu_memcpy": KERNEL,
    "gpu_memset": KERNEL,
    "cuda_runtime": HOST,
    "cuda_driver": HOST,
    "hip_runtime": HOST,
    "user_annotation": ANNOTATION,
    # names of profilers before torch 1.13
    "Kernel": KERNEL,
    "Memcpy": KERNEL,
    "Memset": KERNEL,
    "Runtime": HOST,
}
_LONGEST_NS = 3600 * NS_PER_S  # a longer duration is a counter that overflowed
_DTYPE_BYTES = {"BFloat16": 2, "Half": 2, "Float": 4, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Char": 1}
_UNKNOWN_THREAD = -1
FIRST_NAMED_THREAD = -2  # threads that bear names instead of numbers get -2, -3, ...
_MOST_UNUSUAL = 8  # chunks one after the other; then none is expected to be usual
_MOST_ELEMENTS = 1 << 48  # of one message; more is damage
_NO_ARGS = EventArgs()


def is_used(event: Event) -> bool:
    """Return whether an event is of a kind that is kept."""
    return isinstance(event.cat, str) and event.cat in _CATEGORY and event.ph == "X"


@dataclass
class EventRows:
    """Takes events a chunk at a time and keeps rows of those that are used.

    Chunks as profilers write them are taken column by column, any other event by event; both give
    the same rows.
    """

    spool: BinaryIO | None = None
    kinds: tuple[RowBlocks, RowBlocks, RowBlocks] = field(init=False)
    name_ids: dict[bytes, int] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    rank_labels: set[str] = field(default_factory=set)
    bad_times: int = 0
    bad_ids: int = 0
    unusual: int = 0  # chunks in a row

    def __post_init__(self) -> None:
        self.kinds = (RowBlocks(self.spool), RowBlocks(self.spool), RowBlocks(self.spool))

    def attach(self, spool: BinaryIO | None) -> None:
        """Give the file back that a process wrote into which these rows came from."""
        for blocks in self.kinds:
            blocks.spool = spool

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "spool": None}

    def take(self, piece: bytes) -> int | None:
        """Keep what is used of a JSON array of events as Kineto writes them, column by column.

        Returns how many events it holds; None, and nothing kept, where one of them is unusual.
        """
        if self.unusual > _MOST_UNUSUAL:
            return None
        try:
            events = decode(piece)
            kept = self._columns([event for event in events if event.__class__ in USED])
        except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
            self.unusual += 1
            return None
        for blocks, columns in zip(self.kinds, kept, strict=True):
            if len(columns[0]):
                blocks.append(columns)
        self.unusual = 0
        return len(events)

    def _columns(self, events: list[Any]) -> list[Int64s]:
        """Return the columns of each kind of event; raises ValueError if a number is unusual."""
        kinds = (KERNELS, CALLS, RANGES)
        found = [_numbers([e for e in events if e.__class__ in classes]) for classes in kinds]
        ids = self._ids_of_names(_raw_names(events))
        for columns, classes in zip(found, kinds, strict=True):
            alone = len(columns[0]) == len(events)
            columns[NAME] = ids if alone else ids[[event.__class__ in classes for event in events]]
        found[HOST] = found[HOST][:, found[HOST][ID] >= 0]
        return found

    def _ids_of_names(self, names: list[bytes]) -> Int64s:
        """Return the numbers of names; new ones get the next, in the order of the events."""
        try:
            return np.fromiter(map(self.name_ids.__getitem__, names), np.int64, len(names))
        except KeyError:
            ids = self.name_ids
            return np.array([ids.setdefault(name, len(ids)) for name in names], dtype=np.int64)

    def consume(self, events: list[Event]) -> None:
        """Keep what is used of `events`, one by one."""
        rows: tuple[list[int], list[int], list[int]] = ([], [], [])
        for event in events:
            kind = _CATEGORY.get(event.cat) if isinstance(event.cat, str) else None
            if kind is None or event.ph != "X":
                continue
            start, duration = ns(bytes(event.ts)), ns(bytes(event.dur))
            if start is None or duration is None or not 0 <= duration < _LONGEST_NS:
                self.bad_times += 1
                continue
            if isinstance(event.pid, str) and event.pid.startswith("["):
                self.rank_labels.add(event.pid.split("]")[0] + "]")
            rows[kind].extend(self._row(kind, event, start, duration))
        for blocks, values in zip(self.kinds, rows, strict=True):
            if values:
                blocks.append(np.array(values, dtype=np.int64).reshape(-1, COLUMNS).T)

    def _row(self, kind: int, event: Event, start: int, duration: int) -> tuple[int, ...]:
        """Return the row of one event, an empty one where a call cannot be told from others."""
        name = self.name_ids.setdefault(bytes(event.name), len(self.name_ids))
        args = event.args or _NO_ARGS
        correlation = whole(args.correlation)
        known = -1 if correlation is None else correlation
        self.bad_ids += correlation is None and args.correlation is not None
        if kind == HOST and known < 0:
            return ()
        if kind != KERNEL:
            return name, start, duration, known, self._lane(event.tid), 0, 0, 0
        lane = self._lane(event.tid if args.stream is None else args.stream)
        group, node = whole(args.group_size) or 0, whole(args.node) or 0
        return name, start, duration, known, lane, group, _message_bytes(args), node

    def _lane(self, lane: Any) -> int:
        number = whole(lane)
        if number is not None:
            return number
        if lane is None:
            return _UNKNOWN_THREAD
        return self.threads.setdefault(str(lane), FIRST_NAMED_THREAD - len(self.threads))


def _numbers(events: list[Any]) -> Int64s:
    """Return the columns of events of one kind but for their names."""
    count = len(events)
    columns = np.zeros((COLUMNS, count), dtype=np.int64)
    if not count:
        return columns
    args = [event.args for event in events]
    columns[START] = many_ns([event.ts for event in events])
    columns[DURATION] = many_ns([event.dur for event in events])
    columns[ID] = integers([a.correlation for a in args])
    columns[LANE] = integers([event.tid for event in events])
    if (columns[DURATION] >= _LONGEST_NS).any():
        raise ValueError("a duration is too long")
    if events[0].__class__ not in KERNELS:
        return columns
    stream = integers([a.stream for a in args])
    columns[LANE] = np.where(stream == NO_LANE, columns[LANE], stream)
    columns[NODE] = integers([a.node for a in args])
    for i in [i for i, a in enumerate(args) if a.group_size is not None or a.elements is not None]:
        columns[GROUP_SIZE, i] = whole(args[i].group_size) or 0
        columns[MESSAGE_BYTES, i] = _message_bytes(args[i])
    return columns


def _raw_names(events: list[Any]) -> list[bytes]:
    """Return the names of events as they are written."""
    raw = [event.name for event in events]
    names = b"\n".join(raw).split(b"\n")  # half the time of taking them one by one
    return names if len(names) == len(raw) else list(map(bytes, raw))


def _message_bytes(args: EventArgs | TypedArgs) -> int:
    width = _DTYPE_BYTES.get(args.dtype, 0) if isinstance(args.dtype, str) else 0
    elements = whole(args.elements) or 0
    return elements * width if 0 <= elements < _MOST_ELEMENTS else 0
