"""Torch profiler traces (.json, .json.gz), one file a rank, as a `RankTrace`."""

from __future__ import annotations

import re
from array import array
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolkit.errors import BadInputError
from toolkit.ingest.byte_chunks import read_chunks
from toolkit.ingest.traces.chrome_events import Event, EventArgs, StreamResult, stream_events
from toolkit.schema.trace import Annotations, HostCalls, Int64s, Kernels, ProcessGroup, RankTrace
from toolkit.units import NS_PER_S, NS_PER_US

_KERNEL, _HOST, _ANNOTATION = 0, 1, 2
_START, _ID, _COLUMNS = 1, 3, 7  # columns of start and correlation id, and how many there are
_CATEGORY = {
    "kernel": _KERNEL,
    "gpu_memcpy": _KERNEL,
    "gpu_memset": _KERNEL,
    "cuda_runtime": _HOST,
    "cuda_driver": _HOST,
    "hip_runtime": _HOST,
    "user_annotation": _ANNOTATION,
    # names of profilers before torch 1.13
    "Kernel": _KERNEL,
    "Memcpy": _KERNEL,
    "Memset": _KERNEL,
    "Runtime": _HOST,
}
_LONGEST_NS = 3600 * NS_PER_S  # a longer duration is a counter that overflowed
_LATEST_NS = 4_000_000_000 * NS_PER_S  # the year 2096; twice as much still fits an int64
_FEW_DIGITS = 20  # a time this short is before `_LATEST_NS`
_MOST_DIGITS = 40  # of a time; int() refuses thousands
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,18})?")
_DTYPE_BYTES = {"BFloat16": 2, "Half": 2, "Float": 4, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Char": 1}
_RANK_IN_NAME = re.compile(r"(?:[-_.]TP[-_]?|[-_.]tp|^tp)(\d+)(?=[-_.])")
_GLOBAL_RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)(?=[-_.])")
_UNKNOWN_THREAD = -1
_MOST_RANKS = 1 << 16
_MOST_ELEMENTS = 1 << 48  # of one message; more is damage


class _Columns:
    """Rows of one kind of event, grown cheaply: name, start, duration, id, lane, and two extras."""

    def __init__(self) -> None:
        self.values = array("q")

    def columns(self) -> Int64s:
        """Return a row for each column, in the order in which the events were read."""
        return np.asarray(np.array(self.values, dtype=np.int64).reshape(-1, _COLUMNS).T)

    def sorted(self) -> list[Int64s]:
        columns = self.columns()
        order = np.argsort(columns[_START], kind="stable")
        return [column[order] for column in columns]


class _Collector:
    """Keeps the columns of the events that are used and forgets the rest."""

    def __init__(self) -> None:
        self.kinds = (_Columns(), _Columns(), _Columns())
        self.name_ids: dict[bytes, int] = {}
        self.bad_times = 0
        self.bad_ids = 0
        self.threads: dict[str, int] = {}
        self.rank_labels: set[str] = set()

    def consume(self, events: list[Event]) -> None:
        for event in events:
            kind = _CATEGORY.get(event.cat) if isinstance(event.cat, str) else None
            if kind is None or event.ph != "X":
                continue
            start, duration = _ns(bytes(event.ts)), _ns(bytes(event.dur))
            if start is None or duration is None or not 0 <= duration < _LONGEST_NS:
                self.bad_times += 1
                continue
            if isinstance(event.pid, str) and event.pid.startswith("["):
                self.rank_labels.add(event.pid.split("]")[0] + "]")
            self._append(kind, event, start, duration)

    def _append(self, kind: int, event: Event, start: int, duration: int) -> None:
        name = self.name_ids.setdefault(bytes(event.name), len(self.name_ids))
        args = event.args or _NO_ARGS
        correlation = _whole(args.correlation)
        known = -1 if correlation is None else correlation
        self.bad_ids += correlation is None and args.correlation is not None
        if kind == _KERNEL:
            lane = self._lane(event.tid if args.stream is None else args.stream)
            group = _whole(args.group_size) or 0
            self.kinds[kind].values.extend((name, start, duration, known, lane, group, _message_bytes(args)))
        elif kind == _ANNOTATION or known >= 0:
            self.kinds[kind].values.extend((name, start, duration, known, self._lane(event.tid), 0, 0))

    def _lane(self, lane: Any) -> int:
        number = _whole(lane)
        if number is not None:
            return number
        return _UNKNOWN_THREAD if lane is None else self.threads.setdefault(str(lane), -2 - len(self.threads))


_NO_ARGS = EventArgs()


def _whole(value: Any) -> int | None:
    """Return an id or count that fits an int64, also where a tool wrote it as text or with a point."""
    if value is None:
        return None
    if type(value) is int and abs(value) < 1 << 63:
        return value
    if isinstance(value, str | float) and _WHOLE.fullmatch(str(value)):
        return int(float(value)) if isinstance(value, float) else int(value.partition(".")[0])
    return None


def _ns(text: bytes) -> int | None:
    """Return the ns of a time written in us, to the nearest; None if it is no finite time."""
    if len(text) < _FEW_DIGITS and text[-4:-3] == b".":
        thousandths = text[:-4] + text[-3:]
        if thousandths.isdigit():
            return int(thousandths)
    digits = text.strip(b'"')
    if not 0 < len(digits) <= _MOST_DIGITS:
        return None
    whole, dot, fraction = digits.partition(b".")
    if whole.isdigit() and len(fraction) <= 3 and (fraction.isdigit() or not dot):
        ns = int(whole) * NS_PER_US + int((fraction + b"000")[:3])
        return ns if ns < _LATEST_NS else None
    try:
        exact = Decimal(digits.decode()) * NS_PER_US
        return int(exact.to_integral_value()) if abs(exact) < _LATEST_NS else None
    except (InvalidOperation, ValueError):
        return None


def _message_bytes(args: EventArgs) -> int:
    width = _DTYPE_BYTES.get(args.dtype, 0) if isinstance(args.dtype, str) else 0
    elements = _whole(args.elements) or 0
    return elements * width if 0 <= elements < _MOST_ELEMENTS else 0


def read_trace(path: Path) -> RankTrace:
    """Read one rank's trace; nanoseconds and everything before a damaged place are kept.

    Raises BadInputError when the file is no trace, holds several ranks, or nothing in it can be read.
    A trace without kernels is returned as such: only the reader's caller knows if that matters.
    """
    damage: list[str] = []
    collector = _Collector()
    result = stream_events(read_chunks(path, damage), collector.consume)
    _refuse(path, result, collector, damage)
    damage += _losses(path, result, collector, known_cut=bool(damage))
    return _rank_trace(path, result, collector, tuple(damage))


def _losses(path: Path, result: StreamResult, collector: _Collector, known_cut: bool) -> list[str]:
    """Return sentences on what the file lacks; the cut itself only where its gzip stream did not tell."""
    found = []
    if not result.complete and not known_cut:
        where = "in the middle of an event" if result.cut_event else "before the end of its list of events"
        found.append(f"the trace ends {where}; {result.events} events before it were read")
    elif result.cut_end and not known_cut:
        found.append("the trace ends behind its events; the settings that may have stood there are lost")
    if result.complete and result.cut_event:
        found.append("the last event could not be read and was left out")
    if result.lost_events:
        found.append(f"{result.lost_events} events could not be read and were left out")
    if collector.bad_times:
        found.append(f"{collector.bad_times} events have no usable time or duration and were left out")
    if collector.bad_ids:
        found.append(f"{collector.bad_ids} events have no usable correlation id; what launched them is lost")
    calls = collector.kinds[_HOST].columns()[_ID]
    shared = len(calls) - len(np.unique(calls))
    if shared:
        found.append(
            f"{shared} calls share their correlation id with another; phases may be taken apart wrongly"
        )
    return [f"{path.name}: {sentence}" for sentence in found]


def _refuse(path: Path, result: StreamResult, collector: _Collector, damage: list[str]) -> None:
    if not damage and _is_neither_json_nor_gzip(path):
        damage = ["its bytes are neither JSON nor gzip"]
    notes = f" ({'; '.join(damage)})" if damage else ""
    if not result.found_array:
        raise BadInputError(
            f"{path} is no profiler trace: it has no traceEvents{notes}; "
            "pass a torch profiler .json or .json.gz"
        )
    if not result.events:
        raise BadInputError(f"{path} holds no readable event{notes}; record the trace again")
    if len(collector.rank_labels) > 1:
        labels = ", ".join(sorted(collector.rank_labels)[:4])
        raise BadInputError(
            f"{path} merges several ranks ({labels}); pass the files of the single ranks instead"
        )


def _is_neither_json_nor_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    return bool(head) and not head.startswith((b"{", b"[", b"\x1f\x8b"))


def _rank_trace(
    path: Path, result: StreamResult, collector: _Collector, damage: tuple[str, ...]
) -> RankTrace:
    top = result.top_level
    found = top.get("distributedInfo")
    distributed: dict[str, Any] = found if isinstance(found, dict) else {}
    base = _integer(top.get("baseTimeNanoseconds")) or 0
    base = base if 0 <= base < _LATEST_NS else 0
    kernel, host, annotation = (columns.sorted() for columns in collector.kinds)
    names = tuple(_text(raw) for raw in collector.name_ids)
    return RankTrace(
        source=path.name,
        tp_rank=_rank(path.name, distributed),
        world_size=_world_size(distributed),
        names=names,
        kernels=Kernels(_i32(kernel[0]), kernel[1] + base, *kernel[2:]),
        host_calls=HostCalls(_i32(host[0]), host[1] + base, *host[2:5]),
        annotations=Annotations(_i32(annotation[0]), annotation[1] + base, annotation[2], annotation[4]),
        process_groups=_groups(distributed),
        gpu=_gpu(top),
        with_stack=bool(top.get("with_stack")),
        event_count=result.events,
        damage=damage,
    )


def _i32(values: Int64s) -> NDArray[np.int32]:
    return values.astype(np.int32)


def _text(raw: bytes) -> str:
    try:
        return str(msgspec.json.decode(raw.decode("utf-8", "replace")))
    except (msgspec.DecodeError, RecursionError):
        return raw.decode("utf-8", "replace").strip('"')


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _world_size(distributed: dict[str, Any]) -> int | None:
    found = _integer(distributed.get("world_size"))
    return found if found is not None and 0 < found <= _MOST_RANKS else None


def _rank(file_name: str, distributed: dict[str, Any]) -> int:
    """The file name says which rank it is; a merged or renamed file falls back on the profiler's word."""
    for pattern in (_RANK_IN_NAME, _GLOBAL_RANK_IN_NAME):
        found = pattern.search(file_name)
        if found:
            return int(found[1])
    return _integer(distributed.get("rank")) or 0


def _groups(distributed: dict[str, Any]) -> tuple[ProcessGroup, ...]:
    listed = distributed.get("pg_config")
    groups = []
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("ranks"), list):
            ranks = tuple(rank for rank in entry["ranks"] if isinstance(rank, int))
            groups.append(ProcessGroup(str(entry.get("pg_name")), str(entry.get("pg_desc")), ranks))
    return tuple(groups)


def _gpu(top: dict[str, Any]) -> str | None:
    devices = top.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        name = devices[0].get("name")
        return name if isinstance(name, str) else None
    return None
