"""The external events inside one captured graph, and the rules for reading them without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import TypeGuard

# A reading of the graph may not exceed the event pair around the engine's call, up to the clock's grain.
_GRAIN_US = 5.0
_LATER = 1.5  # how much longer than a call one of the next ones may take and still be of its kind


class Reading(NamedTuple):
    """Times of one replay in us: the graph from its first to its last node, and each draft forward."""

    graph_us: float
    steps_us: tuple[float, ...]


class EventSet:
    """Events recorded while a graph was captured: its first and last node, and a pair a draft forward."""

    __slots__ = ("_make", "_open", "first", "forwards", "last")

    def __init__(self, make: Any) -> None:
        self._make = make
        self._open: Any = None
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


def readable(sets: Sequence[EventSet | None]) -> TypeGuard[Sequence[EventSet]]:
    """Say whether the phase's graphs can be read: none ran without events (None), and none ran twice."""
    return bool(sets) and None not in sets and len({id(one) for one in sets}) == len(sets)


def in_order(sets: Sequence[EventSet]) -> bool:
    """Say whether all events are passed, and in the order of the graph."""
    return _intervals(sets) is not None


def read_sets(sets: Sequence[EventSet]) -> Reading | None:
    """Return the times of the sets of one phase, in the order of their replays; None when they do not agree.

    An event holds its last record only. Where a second replay has begun, some events are of the later and
    some of the earlier one, and the interval between the two kinds is negative: such a reading is refused.
    Two readings must be equal, or a replay passed between the questions.
    """
    first = _intervals(sets)
    if first is None or first != _intervals(sets):
        return None
    steps, at = [], 0
    for one in sets:
        steps += [first[at + 1 + 2 * index] for index in range(len(one.forwards))]
        at += 2 * len(one.forwards) + 2
    total = sum(first)
    if total <= 0 or any(step <= 0 for step in steps):
        return None
    return Reading(total, tuple(steps))


def fits_stage(reading: Reading, stage_us: float | None, later: bool = False) -> bool:
    """Say whether a reading can be of the call that took `stage_us`.

    `later` allows for one of the next replays, whose call may have taken longer.
    """
    most = _LATER if later else 1.001
    return stage_us is None or reading.graph_us <= stage_us * most + _GRAIN_US


def _intervals(sets: Sequence[EventSet]) -> list[float] | None:
    """Return the times between neighbouring events in us; None when one is not passed or goes backwards."""
    events = [event for one in sets for event in one.chain()]
    if any(event is None or not event.query() for event in events):
        return None
    found = []
    for start, end in zip(events, events[1:]):  # noqa: B905, RUF007 -- neighbours
        interval = float(start.elapsed_time(end)) * 1000  # elapsed_time is in ms
        if interval < 0:
            return None
        found.append(interval)
    return found
