"""Events of a Chrome JSON trace as a stream: typed decoding of whole chunks, salvage of damaged ones.

A trace file is an object with a `traceEvents` array among other keys, or a bare array. The array is
never held whole. A chunk that does not decode (control characters, a broken event, a cut) is read
event by event; what cannot be read is counted.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

_ARRAY_HEAD = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEYS = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|bp|s)"'
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{\s*" + _KEYS + rb")")
_EVENT_START = re.compile(r'\{\s*"(?:ph|name|cat|pid|tid|ts)"')
_TAIL_BYTES = 1 << 16  # where the last boundary of a chunk is looked for first
_MAX_HEAD_BYTES = 64 << 20


class EventArgs(msgspec.Struct, gc=False):
    """The arguments of an event that are used."""

    correlation: int | None = None
    stream: int | str | None = None
    collective: str | None = msgspec.field(name="Collective name", default=None)
    group_size: int | None = msgspec.field(name="Group size", default=None)
    elements: int | None = msgspec.field(name="In msg nelems", default=None)
    dtype: str | None = None


class Event(msgspec.Struct, gc=False):
    """An event whose numbers stay as written: `ts` and `dur` are us with their decimals."""

    ph: str = ""
    cat: str | None = None
    name: msgspec.Raw = msgspec.Raw(b'""')
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: EventArgs | None = None


@dataclass
class StreamResult:
    """What is known once the stream ended: the other top-level keys, and what was lost."""

    top_level: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    lost_events: int = 0
    found_array: bool = False
    complete: bool = False


_decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_event = msgspec.json.Decoder(Event).decode
_lenient = json.JSONDecoder(strict=False)


def stream_events(chunks: Iterable[bytes], consume: Callable[[list[Event]], None]) -> StreamResult:
    """Feed every readable event of a trace to `consume`, in lists, and return what else was found."""
    result = StreamResult()
    iterator = iter(chunks)
    buffer = _after_head(iterator, result)
    if buffer is None:
        return result
    for chunk in iterator:
        buffer += chunk
        cut = _last_boundary(buffer)
        if cut:
            _decode(buffer[:cut], consume, result)
            buffer = buffer[cut:]
    _finish(buffer, consume, result)
    return result


def _after_head(chunks: Iterable[bytes], result: StreamResult) -> bytes | None:
    """Return what follows the opening bracket of the events; None if there is no such array."""
    head = b""
    for chunk in chunks:
        head += chunk
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            result.found_array = True
            return head[head.index(b"[") + 1 :]
        found = _ARRAY_HEAD.search(head)
        if found:
            result.found_array = True
            result.top_level.update(_object(head[: found.start()].rstrip().rstrip(b",") + b"}"))
            return head[found.end() :]
        if len(head) > _MAX_HEAD_BYTES:
            break
    result.top_level.update(_object(head))
    return None


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = _lenient.decode(text.decode("utf-8-sig", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _last_boundary(buffer: bytes) -> int:
    for start in (max(0, len(buffer) - _TAIL_BYTES), 0):
        last = deque(_BOUNDARY.finditer(buffer, start), maxlen=1)
        if last:
            return last[0].end()
        if not start:
            break
    return 0


def _decode(piece: bytes, consume: Callable[[list[Event]], None], result: StreamResult) -> None:
    body = piece.strip().rstrip(b",")
    try:
        events = _decode_events(b"[" + body + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError):
        _salvage(piece.decode("utf-8", "replace"), consume, result)
        return
    result.events += len(events)
    consume(events)


def _finish(buffer: bytes, consume: Callable[[list[Event]], None], result: StreamResult) -> None:
    """Read the last events, the closing bracket and the keys behind it."""
    text = buffer.decode("utf-8", "replace")
    rest = _salvage(text, consume, result)
    if rest is None:
        return
    result.complete = True
    tail = rest.lstrip().lstrip(",").strip()
    if tail and tail != "}":
        result.top_level.update(_object(("{" + tail).encode()))


def _salvage(text: str, consume: Callable[[list[Event]], None], result: StreamResult) -> str | None:
    """Read events one by one; return what follows the array's closing bracket, None if it never comes."""
    at = 0
    events: list[Event] = []
    rest = None
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text):
            break
        if text[at] == "]":
            rest = text[at + 1 :]
            break
        try:
            _, end = _lenient.raw_decode(text, at)
            events.append(_decode_event(_clean(text[at:end])))
            at = end
        except (ValueError, msgspec.DecodeError, RecursionError):
            result.lost_events += 1
            following = _EVENT_START.search(text, at + 1)
            if following is None:
                break
            at = following.start()
    result.events += len(events)
    consume(events)
    return rest


_CONTROL = re.compile("[\x00-\x1f]")


def _clean(event: str) -> bytes:
    return _CONTROL.sub(" ", event).encode("utf-8", "replace")
