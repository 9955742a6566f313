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
_KEYS = r'"(?:ph|name|cat|pid|tid|ts|dur|args|bp)"'  # those an event may begin with, sorted or not
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{\s*" + _KEYS.encode() + rb")")
_EVENT_START = re.compile(r"\{\s*" + _KEYS)
_ARRAY_END = re.compile(r'\]\s*(?:\}|,\s*(?:"|$)|$)')
_PHASE = re.compile(r'"ph"\s*:')  # each event has one
_BLANK = re.compile(r"[ \t\r\n,]*")
_KEY = re.compile(r'[\s,]*"((?:[^"\\]|\\.){0,256})"\s*:\s*')
_TAILS_BYTES = (1 << 12, 1 << 16)  # where the last boundary of a chunk is looked for first
_TAIL_BYTES = _TAILS_BYTES[-1]
_MAX_HEAD_BYTES = 64 << 20
_MAX_BEHIND_BYTES = 16 << 20  # of what follows the events
_LONGEST_EVENT_BYTES = 1 << 20  # one that is open for longer is broken, not cut by the chunk's end
_MOST_TRIES = 10_000  # places where an event might begin but none can be read, in one file
_BETWEEN = b" \t\r\n\x0b\x0c,"  # what may stand between two events
_TO_SPACES = bytes(0x20 if byte < 0x20 else byte for byte in range(256))


class EventArgs(msgspec.Struct, gc=False):
    """The arguments of an event that are used, whatever their type: it is checked where they are used."""

    correlation: Any = None
    stream: Any = None
    group_size: Any = msgspec.field(name="Group size", default=None)
    elements: Any = msgspec.field(name="In msg nelems", default=None)
    dtype: Any = None
    node: Any = msgspec.field(name="graph node id", default=None)


class Event(msgspec.Struct, gc=False):
    """An event whose numbers stay as written: `ts` and `dur` are us with their decimals."""

    ph: Any = ""
    cat: Any = None
    name: msgspec.Raw = msgspec.Raw(b'""')
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: EventArgs | None = None


@dataclass
class StreamResult:
    """What is known once the stream ended: the other top-level keys, and what was lost.

    `complete`: the array was closed; `cut_event`: what was read last is an event that cannot be; `cut_end`:
    the array was closed, but the object around it was not; `cut_head`: keys before it could not be read.
    """

    top_level: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    lost_events: int = 0
    found_array: bool = False
    complete: bool = False
    cut_event: bool = False
    cut_end: bool = False
    cut_head: bool = False


Consumer = Callable[[list[Event]], None]
Taker = Callable[[bytes], int | None]

_decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_event = msgspec.json.Decoder(Event).decode
_lenient = json.JSONDecoder(strict=False)
_UNREADABLE = (ValueError, RecursionError)  # msgspec's errors are ValueErrors


def stream_events(
    chunks: Iterable[bytes], consume: Consumer, take: Taker | None = None, *, inside_events: bool = False
) -> StreamResult:
    """Feed every readable event of a trace to `consume`, in lists, and return what else was found.

    `take` is given whole JSON arrays of events first and returns how many it took; what it does not
    take (None) is decoded for `consume`. `inside_events`: the chunks begin with an event of the array,
    as later parts of a file do.
    """
    result = StreamResult(found_array=inside_events)
    iterator = iter(chunks)
    bare, buffer = (False, b"") if inside_events else _after_head(iterator, result)
    if not result.found_array:
        return result
    reader = _Reader(buffer, consume, take, result)
    for chunk in iterator:
        reader.feed(chunk)
    reader.finish(bare)
    return result


def _after_head(chunks: Iterable[bytes], result: StreamResult) -> tuple[bool, bytes]:
    """Return whether the trace is a bare array, and what follows the opening bracket of the events."""
    head = b""
    for chunk in chunks:
        searched = max(0, len(head) - _TAIL_BYTES)
        head += chunk
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            result.found_array = True
            return True, head[head.index(b"[") + 1 :]
        found = _ARRAY_HEAD.search(head, searched)
        if found:
            result.found_array = True
            before = head[: found.start()].partition(b"{")[2]
            result.cut_head = not _add_pairs(before + b"}", result)
            return False, head[found.end() :]
        if len(head) > _MAX_HEAD_BYTES:
            break
    return False, b""


def _add_pairs(text: bytes, result: StreamResult) -> bool:
    """Add the members of an object, given without its opening brace; return whether it was whole."""
    body = text.decode("utf-8", "replace")
    at = 0
    while key := _KEY.match(body, at):
        try:
            value, at = _lenient.raw_decode(body, key.end())
        except _UNREADABLE:
            return False
        result.top_level[key[1]] = value
    return body[at:].strip(", \t\r\n") == "}"


class _Reader:
    """Holds what was not decoded yet: at most one chunk and one event."""

    def __init__(self, buffer: bytes, consume: Consumer, take: Taker | None, result: StreamResult) -> None:
        self._buffer = buffer
        self._consume = consume
        self._take = take
        self._result = result
        self._tail: list[bytes] = []  # what follows the array
        self._tail_bytes = 0
        self._tries = 0

    def feed(self, chunk: bytes) -> None:
        """Decode what is whole once `chunk` is there."""
        if self._result.complete:
            self._add_tail(chunk)
            return
        self._buffer += chunk
        if not self._decode_to_last_boundary() or len(self._buffer) > _LONGEST_EVENT_BYTES:
            self._salvage(last=False)

    def _add_tail(self, piece: bytes) -> None:
        """Keep what follows the array, up to what settings can take."""
        self._tail.append(piece[: max(0, _MAX_BEHIND_BYTES - self._tail_bytes)])
        self._tail_bytes += len(self._tail[-1])

    def _add(self, events: list[Event] | None, count: int) -> None:
        """Count events that were read, and hand on those that `take` did not keep."""
        if count and self._result.cut_event:  # it was not the last one
            self._result.lost_events += 1
            self._result.cut_event = False
        self._result.events += count
        if events is not None:
            self._consume(events)

    def finish(self, bare: bool) -> None:
        """Decode the last events and the keys behind the array."""
        if not self._result.complete:
            self._decode_to_last_boundary()
            self._salvage(last=True)
        if self._result.complete and not bare:
            self._result.cut_end = not _add_pairs(b"".join(self._tail), self._result)

    def _decode_to_last_boundary(self) -> bool:
        """Decode up to the last place where one event ends and the next begins; False if it does not."""
        cut = _last_boundary(self._buffer)
        if not cut:
            return True
        piece = _listed(self._buffer, cut)
        taken = self._take(piece) if self._take else None
        if taken is None:
            events = _decoded(piece) or _decoded(piece.translate(_TO_SPACES))
            if events is None:
                return False
            self._add(events, len(events))
        else:
            self._add(None, taken)
        self._buffer = self._buffer[cut:]
        return True

    def _salvage(self, last: bool) -> None:
        """Read events one by one up to the array's end, or to the event that the chunk's end cuts.

        Latin-1 gives each byte a character, so places in the text are places in the bytes.
        """
        text = self._buffer.decode("latin-1")
        events: list[Event] = []
        at = _skip(text, 0)
        while at < len(text):
            if _ARRAY_END.match(text, at):
                if last or len(text) - at > _TAIL_BYTES or text[at + 1 :].strip():
                    self._result.complete = True
                    self._add_tail(self._buffer[at + 1 :])
                break
            found = _event_at(text, at)
            if found is None:
                if not last and len(text) - at < _LONGEST_EVENT_BYTES:
                    break
                self._add(events, len(events))
                events = []
                at = self._lost(text, at)
                continue
            events.append(found[0])
            at = _skip(text, found[1])
        self._buffer = b"" if self._result.complete else self._buffer[at:]
        self._add(events, len(events))

    def _lost(self, text: str, at: int) -> int:
        """Return where the next event begins after one that cannot be read, and count that one.

        Objects inside its arguments are no events: those have a `ph`.
        """
        following = _EVENT_START.search(text, at + 1)
        while following and self._tries < _MOST_TRIES:
            found = _event_at(text, following.start())
            if found and found[0].ph:
                self._result.lost_events += max(1, len(_PHASE.findall(text, at, following.start())))
                self._result.cut_event = False
                return following.start()
            self._tries += 1
            following = _EVENT_START.search(text, following.start() + 1)
        if not self._result.cut_event:
            self._result.lost_events += max(0, len(_PHASE.findall(text, at)) - 1)
        self._result.cut_event = True
        return len(text)


def first_boundary(piece: bytes) -> int:
    """Return where the first event begins that follows another one in `piece`; 0 where none does."""
    found = _BOUNDARY.search(piece)
    return found.end() if found else 0


def _last_boundary(buffer: bytes) -> int:
    for start in (*(max(0, len(buffer) - tail) for tail in _TAILS_BYTES), 0):
        last = deque(_BOUNDARY.finditer(buffer, start), maxlen=1)
        if last:
            return last[0].end()
        if not start:
            break
    return 0


def _listed(buffer: bytes, end: int) -> bytes:
    """Return the events in the first bytes of `buffer` as a JSON array, copied once."""
    start = 0
    while start < end and buffer[start] in _BETWEEN:
        start += 1
    while end > start and buffer[end - 1] in _BETWEEN:
        end -= 1
    return b"".join((b"[", memoryview(buffer)[start:end], b"]"))


def _decoded(piece: bytes) -> list[Event] | None:
    try:
        return _decode_events(piece)
    except _UNREADABLE:
        return None


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _event_at(text: str, at: int) -> tuple[Event, int] | None:
    """Return the event that begins there and where it ends; None if it cannot be read."""
    try:
        _, end = _lenient.raw_decode(text, at)
        raw = text[at:end].encode("latin-1").translate(_TO_SPACES)
        return _decode_event(raw.decode("utf-8", "replace").encode()), end
    except _UNREADABLE:
        return None
