"""The events that are used, as rows of integers; all others are forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec
import numpy as np

from toolkit.ingest.traces.chrome_events import Event, EventArgs
from toolkit.ingest.traces.event_numbers import many_ns, ns, whole, wholes
from toolkit.ingest.traces.row_blocks import COLUMNS, GROUP_SIZE, NODE, RowBlocks
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
_MOST_ELEMENTS = 1 << 48  # of one message; more is damage
_NO_ARGS = EventArgs()


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

    def __post_init__(self) -> None:
        self.kinds = (RowBlocks(self.spool), RowBlocks(self.spool), RowBlocks(self.spool))

    def attach(self, spool: BinaryIO | None) -> None:
        """Give the file back that a process wrote into which these rows came from."""
        for blocks in self.kinds:
            blocks.spool = spool

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "spool": None}

    def consume(self, events: list[Event]) -> None:
        """Keep what is used of `events`."""
        try:
            used = [event for event in events if event.cat in _CATEGORY and event.ph == "X"]
        except TypeError:  # a category that cannot be looked up, like a list
            used = [e for e in events if isinstance(e.cat, str) and e.cat in _CATEGORY and e.ph == "X"]
        if used and not self._taken_together(used):
            self._take_each(used)

    def _taken_together(self, events: list[Event]) -> bool:
        """Take the events column by column; False, and nothing taken, where one is unusual."""
        start, duration = many_ns([e.ts for e in events]), many_ns([e.dur for e in events])
        if start is None or duration is None or (duration >= _LONGEST_NS).any():
            return False
        if set(map(type, [e.pid for e in events])) - {int}:
            return False
        args = [e.args or _NO_ARGS for e in events]
        kinds = [_CATEGORY[e.cat] for e in events]
        lanes = [
            e.tid if kind or a.stream is None else a.stream
            for e, a, kind in zip(events, args, kinds, strict=True)
        ]
        known, lane = _ids_or([a.correlation for a in args], -1), wholes(lanes)
        if known is None or lane is None:
            return False
        nodes = _ids_or([a.node for a in args], 0)
        if nodes is None:
            return False
        columns = np.zeros((COLUMNS, len(events)), dtype=np.int64)
        columns[:GROUP_SIZE] = self._names([e.name for e in events]), start, duration, known, lane
        columns[NODE] = nodes
        for i in [i for i, a in enumerate(args) if a.group_size is not None or a.elements is not None]:
            if kinds[i] == KERNEL:
                columns[GROUP_SIZE:NODE, i] = whole(args[i].group_size) or 0, _message_bytes(args[i])
        of = np.array(kinds)
        for kind, blocks in enumerate(self.kinds):
            mine = (of == kind) & (known >= 0) if kind == HOST else of == kind
            if mine.any():
                blocks.append(columns[:, mine])
        return True

    def _names(self, names: list[msgspec.Raw]) -> list[int]:
        """Return the id of each name; a new one gets the next."""
        ids = self.name_ids
        return [ids.setdefault(name, len(ids)) for name in map(bytes, names)]

    def _take_each(self, events: list[Event]) -> None:
        rows: tuple[list[int], list[int], list[int]] = ([], [], [])
        for event in events:
            start, duration = ns(bytes(event.ts)), ns(bytes(event.dur))
            if start is None or duration is None or not 0 <= duration < _LONGEST_NS:
                self.bad_times += 1
                continue
            if isinstance(event.pid, str) and event.pid.startswith("["):
                self.rank_labels.add(event.pid.split("]")[0] + "]")
            kind = _CATEGORY[event.cat]
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


def _ids_or(values: list[Any], none: int) -> Int64s | None:
    """Return ids, `none` where there is none; None if one is written in an unusual way."""
    return wholes([none if value is None else value for value in values])


def _message_bytes(args: EventArgs) -> int:
    width = _DTYPE_BYTES.get(args.dtype, 0) if isinstance(args.dtype, str) else 0
    elements = whole(args.elements) or 0
    return elements * width if 0 <= elements < _MOST_ELEMENTS else 0
