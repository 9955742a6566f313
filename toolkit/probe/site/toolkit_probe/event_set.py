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


# What the events of a copy stand around: each costs the graph time, so a replay has one kind at most inside.
OUTLINE = "outline"  # the graph as a whole
FORWARDS = "forwards"  # each draft forward
COLLECTIVES = "collectives"  # each collective


class Reading(NamedTuple):
    """Times of one replay in us: the graph from its first to its last node, and each pair inside.

    `whole` says that `graph_us` has no cost of events inside in it, or that there was no way without.
    """

    graph_us: float
    steps_us: tuple[float, ...] = ()
    collectives_us: tuple[float, ...] = ()
    whole: bool = True


class EventSet:
    """Events in a graph: at its first and last node, and a pair around each draft forward or collective.

    `view` is None in the engine's own graph, which has one kind of events for good. `cycle` is the one whose
    replay they hold. It is changed before the next replay is launched, so a reading after which it is still
    the same is of that cycle.
    """

    __slots__ = ("_make", "_open", "cycle", "first", "last", "pairs", "view")

    def __init__(self, make: Any, view: str | None = None) -> None:
        self._make = make
        self._open: Any = None
        self.view = view
        self.cycle: Any = None
        self.first: Any = None
        self.last: Any = None
        self.pairs: list[tuple[Any, Any]] = []

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
        self.pairs.append((self._open, self._record()))

    def begin_collective(self) -> None:
        """Leave a collective alone: its events would cost the engine time in every replay."""

    def end_collective(self) -> None:
        """Leave it alone."""

    def chain(self) -> list[Any]:
        """Return all events in the order in which a replay passes them."""
        inner = [event for pair in self.pairs for event in pair]
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
    inner, at = [], 0
    for one in sets:
        inner += [first[at + 1 + 2 * index] for index in range(len(one.pairs))]
        at += 2 * len(one.pairs) + 2
    return _reading(sum(first), tuple(inner), {one.view for one in sets})


def _reading(total_us: float, inner_us: tuple[float, ...], views: set[str | None]) -> Reading | str:
    """Return the reading; the insides of graphs with different kinds of events are left out."""
    if total_us <= 0:
        return NO_TIME
    if views == {COLLECTIVES}:
        return Reading(total_us, collectives_us=inner_us, whole=False)
    if views <= {FORWARDS} or views <= {None}:
        if any(step <= 0 for step in inner_us):
            return NO_TIME
        return Reading(total_us, steps_us=inner_us, whole=views == {None})
    return Reading(total_us, whole=views == {OUTLINE})


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
