"""Tracks of one rank: slices that a viewer draws in one row or, where they overlap, in several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.units import NS_PER_US

Int64s = NDArray[np.int64]

APART_NS = 2  # viewers read us as floating point: slices that touch could overlap by a nanosecond


@dataclass(frozen=True, slots=True)
class Track:
    """Slices of one kind: `name` indexes `names`; `args` are JSON objects, one a slice, or none at all."""

    title: str
    names: Sequence[str]
    name: Int64s
    start_ns: Int64s
    duration_ns: Int64s
    args: Sequence[str] = ()


def track(title: str, slices: Sequence[tuple[str, int, int]], args: Sequence[str] = ()) -> Track:
    """Return the track of slices given as name, start and end."""
    names = list(dict.fromkeys(name for name, _, _ in slices))
    number = {name: i for i, name in enumerate(names)}
    starts = np.array([start for _, start, _ in slices], dtype=np.int64)
    ends = np.array([end for _, _, end in slices], dtype=np.int64)
    which = np.array([number[name] for name, _, _ in slices], dtype=np.int64)
    return Track(title, names, which, starts, np.maximum(ends - starts, 0), args)


def lanes(start_ns: Int64s, duration_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return the order of slices by start, and the row of each in that order: no two of a row overlap."""
    order = np.argsort(start_ns, kind="stable")
    row = np.zeros(len(order), dtype=np.int64)
    starts = start_ns[order]
    reached = np.maximum.accumulate(starts + duration_ns[order])
    if not len(order) or (starts[1:] >= reached[:-1] + APART_NS).all():
        return order, row
    free: list[int] = []  # when each row is free again
    for i, (start, duration) in enumerate(zip(starts.tolist(), duration_ns[order].tolist(), strict=True)):
        at = next((at for at, moment in enumerate(free) if moment <= start), len(free))
        if at == len(free):
            free.append(0)
        free[at] = start + duration + APART_NS
        row[i] = at
    return order, row


def track_events(one: Track, process: int, first_thread: int, base_ns: int) -> tuple[Iterator[str], int]:
    """Return the events of a track as JSON texts, and how many threads (rows) they take."""
    order, row = lanes(one.start_ns, one.duration_ns)
    rows = int(row.max()) + 1 if len(row) else 0
    return _events(one, order, row, rows, process, first_thread, base_ns), rows


def _events(
    one: Track, order: Int64s, row: Int64s, rows: int, process: int, first_thread: int, base_ns: int
) -> Iterator[str]:
    for number in range(rows):
        title = one.title if not number else f"{one.title} ({number + 1})"
        yield from named_thread(process, first_thread + number, title)
    quoted = [json.dumps(name) for name in one.names]
    which = one.name[order].tolist()
    starts, durations = (one.start_ns[order] - base_ns).tolist(), one.duration_ns[order].tolist()
    for i, (index, lane) in enumerate(zip(order.tolist(), row.tolist(), strict=True)):
        args = f',"args":{one.args[index]}' if one.args else ""
        yield (
            f'{{"ph":"X","name":{quoted[which[i]]},"pid":{process},"tid":{first_thread + lane},'
            f'"ts":{us_text(starts[i])},"dur":{us_text(durations[i])}{args}}}'
        )


def us_text(ns: int) -> str:
    """Return a time in us with all its digits."""
    sign = "-" if ns < 0 else ""
    whole, thousandths = divmod(abs(ns), NS_PER_US)
    return f"{sign}{whole}.{thousandths:03d}"


def named_thread(process: int, thread: int, title: str) -> Iterator[str]:
    """Yield the events that name a row and put it in its place."""
    for name, args in (("thread_name", {"name": title}), ("thread_sort_index", {"sort_index": thread})):
        yield json.dumps({"ph": "M", "name": name, "pid": process, "tid": thread, "args": args})


def named_process(process: int, title: str) -> Iterator[str]:
    """Yield the events that name a process (a rank) and put it in its place."""
    for name, args in (("process_name", {"name": title}), ("process_sort_index", {"sort_index": process})):
        yield json.dumps({"ph": "M", "name": name, "pid": process, "tid": 0, "args": args})
