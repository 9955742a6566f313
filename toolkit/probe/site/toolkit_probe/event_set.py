"""The external events inside one captured graph, and the rules for reading them without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

# A reading of the graph may not exceed the event pair around the engine's call, up to the clock's grain.
_GRAIN_US = 5.0

# Why there is no reading; `unread` in a status counts them by phase.
NOT_PASSED = "its events are not passed"
OUT_OF_ORDER = "its events are of two replays"
CHANGED = "two readings differ"
NO_TIME = "no time between its events"
TOO_LONG = "longer than the call around it"
AGAIN = "replayed again before its events were passed"
ENDED = "the recording ended before"
TWICE = "one of its graphs ran twice"


class Reading(NamedTuple):
    """Times of one replay in us: the graph from its first to its last node, and each draft forward."""

    graph_us: float
    steps_us: tuple[float, ...]


class EventSet:
    """Events recorded while a graph was captured: its first and last node, and a pair a draft forward.

    `cycle` is the one whose replay they hold. It is changed before the next replay is launched, so a reading
    after which it is still the same is of that cycle.
    """

    __slots__ = ("_make", "_open", "cycle", "first", "forwards", "last")

    def __init__(self, make: Any) -> None:
        self._make = make
        self._open: Any = None
        self.cycle: Any = None
        self.first: Any = None
        self.last: Any = None
        self.forwards: list[tuple[Any, Any]] = []

    def record_first(self) -> None:
        """Record the graph's first node; only while it is captured."""
        self.first = self._record()

    def record_last(self) -> None:
        """Record the graph's last node; only while it is captured."""
        self.last = self._record()

    def begin(self) -> None:
        """Record the start of a draft forward."""
        self._open = self._record()

    def end(self) -> None:
        """Record the end of a draft forward."""
        self.forwards.append((self._open, self._record()))

    def chain(self) -> list[Any]:
        """Return all events in the order in which a replay passes them."""
        inner = [event for pair in self.forwards for event in pair]
        return [self.first, *inner, self.last]

    def _record(self) -> Any:
        event = self._make()
        event.record()
        return event


def unreadable(sets: Sequence[EventSet | str]) -> str | None:
    """Say why a phase's graphs cannot be read: one ran without events (for a reason), or one ran twice."""
    without = next((one for one in sets if isinstance(one, str)), None)
    if without is not None:
        return without
    return TWICE if len({id(one) for one in sets}) < len(sets) else None


def in_order(sets: Sequence[EventSet]) -> bool:
    """Say whether all events are passed, and in the order of the graph."""
    return not isinstance(_intervals(sets), str)


def read_sets(sets: Sequence[EventSet], times: int = 2) -> Reading | str:
    """Return the times of the sets of one phase, in the order of their replays, or why they cannot be told.

    An event holds its last record only. Where a second replay has begun, some events are of the later and
    some of the earlier one, and the interval between the two kinds is negative: such a reading is refused.
    Two readings must be equal, or a replay passed between the questions; once is enough for the thread that
    would launch it. Errors of the driver are a reason like others.
    """
    try:
        first = _intervals(sets)
        if isinstance(first, str):
            return first
        if times > 1 and first != _intervals(sets):
            return CHANGED
    except Exception as error:
        return f"asking failed: {error}"[:120]
    steps, at = [], 0
    for one in sets:
        steps += [first[at + 1 + 2 * index] for index in range(len(one.forwards))]
        at += 2 * len(one.forwards) + 2
    total = sum(first)
    if total <= 0 or any(step <= 0 for step in steps):
        return NO_TIME
    return Reading(total, tuple(steps))


def fits_stage(reading: Reading, stage_us: float | None) -> bool:
    """Say whether a reading can be of the call that took `stage_us`."""
    return stage_us is None or reading.graph_us <= stage_us * 1.001 + _GRAIN_US


def _intervals(sets: Sequence[EventSet]) -> list[float] | str:
    """Return the times between neighbouring events in us; why not, where one is not passed or goes back."""
    events = [event for one in sets for event in one.chain()]
    if any(event is None or not event.query() for event in events):
        return NOT_PASSED
    found = []
    for start, end in zip(events, events[1:]):  # noqa: B905, RUF007 -- neighbours
        interval = float(start.elapsed_time(end)) * 1000  # elapsed_time is in ms
        if interval < 0:
            return OUT_OF_ORDER
        found.append(interval)
    return found
