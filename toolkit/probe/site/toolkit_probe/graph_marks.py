"""Places in a graph that is being captured, and the copy of it that gets an event at each place.

Nothing is added to the engine's own graph. A place is what the driver says while the capture is open: the
nodes that the stream's next node will follow. The graph is copied before its capture ends, or after it where
torch keeps the graph. In copies of that copy an event record node goes behind those nodes and before all that
came to depend on them later. Since each costs the replay 3 to 5 us, there is a copy without any inside, for
the time of the whole, and one for each kind of insides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .driver import Driver, DriverError, Edge, Event
from .event_set import COLLECTIVES, FORWARDS, OUTLINE, EventSet

# CUgraphNodeType: kernel, memcpy, memset, host, child graph, empty, event wait, event record.
_COPIED = {0, 1, 2, 3, 4, 5, 6, 7}


class Place(NamedTuple):
    """The nodes before a place, and for each the dependents that it had already (of none: the roots)."""

    after: tuple[int, ...]
    known: frozenset[tuple[int, int]]  # (node, dependent); (0, root)


class Marks:
    """Collects places while a graph is captured, under the names that the recorder's marks have."""

    def __init__(self, driver: Driver, stream: Callable[[], int]) -> None:
        self._driver = driver
        self._stream = stream
        self._graph = 0
        self._open = self._collective = 0
        self._depth = 0  # of collectives: one may call another
        self._places: list[Place] = []
        self._pairs: dict[str, list[tuple[int, int]]] = {FORWARDS: [], COLLECTIVES: []}

    def record_first(self) -> None:
        """Mark the place before the graph's first node."""
        self._mark()

    def record_last(self) -> None:
        """Mark the place behind its last node."""
        self._mark()

    def begin(self) -> None:
        """Mark the start of a draft forward."""
        self._open = self._mark()

    def end(self) -> None:
        """Mark its end."""
        self._pairs[FORWARDS].append((self._open, self._mark()))

    def begin_collective(self) -> None:
        """Mark the start of a collective."""
        if self._depth == 0:
            self._collective = self._mark()
        self._depth += 1

    def end_collective(self) -> None:
        """Mark its end; one that put no node into the graph is none."""
        self._depth -= 1
        if self._depth == 0:
            pair = (self._collective, self._mark())
            if pair[0] != pair[1]:
                self._pairs[COLLECTIVES].append(pair)

    def copied(self, kept: int | None = None) -> Sketch:
        """Copy the graph: while its capture is still open, or `kept`, which torch has of it afterwards."""
        if kept not in (None, self._graph):
            raise DriverError("torch keeps another graph than the one that was captured")
        clone = self._driver.clone(self._graph)
        try:
            kinds = self._driver.kinds(clone)
            if not kinds or not self._driver.roots(clone):
                raise DriverError("the copy has no nodes")
            refused = kinds - _COPIED
            if refused:
                raise DriverError(f"nodes of type {min(refused)} are not copied")
            places = [_twin(self._driver, one, clone) for one in self._places]
            return Sketch(self._driver, clone, places, self._pairs)
        except Exception:
            self._driver.call("cuGraphDestroy", clone)
            raise

    def _mark(self) -> int:
        """Return the number of the place here; two marks with no node between them are one place."""
        graph, after = self._driver.capture_state(self._stream())
        if self._graph not in (0, graph):
            raise DriverError("another graph is captured now")
        self._graph = graph
        if not self._places or self._places[-1].after != after:
            if after:
                pairs = [(node, edge.node) for node in after for edge in self._driver.dependents(node)]
            else:
                pairs = [(0, root) for root in self._driver.roots(graph)]
            self._places.append(Place(after, frozenset(pairs)))
        return len(self._places) - 1


class Sketch:
    """A copy of a graph with the places in it. Owns the copy; each view is a copy of that, with events."""

    def __init__(
        self, driver: Driver, graph: int, places: list[Place], pairs: dict[str, list[tuple[int, int]]]
    ) -> None:
        self._driver = driver
        self._places = places
        self._pairs = pairs
        self.graph = graph
        self.views = (OUTLINE, *(name for name, found in pairs.items() if found))

    def view(self, name: str) -> tuple[int, EventSet]:
        """Return a graph with the events of a view, which the caller owns. What fails leaves none."""
        pairs = self._pairs.get(name, [])
        numbers = sorted({0, len(self._places) - 1, *(number for pair in pairs for number in pair)})
        graph = self._driver.clone(self.graph)
        try:
            places = [_twin(self._driver, self._places[number], graph) for number in numbers]
            at = dict(zip(numbers, self._insert(graph, places)))  # noqa: B905 -- the same length
        except Exception:
            self._driver.call("cuGraphDestroy", graph)
            raise
        found = EventSet(None, name)
        found.first, found.last = at[numbers[0]], at[numbers[-1]]
        found.pairs = [(at[start], at[end]) for start, end in pairs]
        return graph, found

    def drop(self) -> None:
        """Give the copy back. Once or more."""
        graph, self.graph = self.graph, 0
        if graph:
            self._driver.call("cuGraphDestroy", graph)

    def _insert(self, graph: int, places: list[Place]) -> list[Event]:
        events = [self._driver.event() for _ in places]
        later = [self._later(graph, place) for place in places]  # as it is before anything is moved
        behind: dict[int, int] = {}  # the event node that now stands between a node and its dependents
        moved: set[tuple[int, int]] = set()
        for place, event, edges in zip(places, events, later):  # noqa: B905
            after = dict.fromkeys([*place.after, *(behind[node] for node in place.after if node in behind)])
            node = self._driver.add_event(graph, list(after), event)
            self._driver.link(graph, node, list(dict.fromkeys(edge.node for _, edge in edges)))
            for before, edge in edges:
                if before and (before, edge.node) not in moved:
                    self._driver.unlink(graph, before, edge)
                    moved.add((before, edge.node))
            behind.update(dict.fromkeys(place.after, node))
        return events

    def _later(self, graph: int, place: Place) -> list[tuple[int, Edge]]:
        """Return the dependencies that came after the place was marked."""
        if place.after:
            found = [(node, edge) for node in place.after for edge in self._driver.dependents(node)]
        else:
            found = [(0, Edge(root, b"")) for root in self._driver.roots(graph)]
        return [(node, edge) for node, edge in found if (node, edge.node) not in place.known]


def _twin(driver: Driver, place: Place, clone: int) -> Place:
    """Return the place in a copy."""

    def twin(node: int) -> int:
        return driver.twin(node, clone) if node else 0

    known = frozenset((twin(node), twin(later)) for node, later in place.known)
    return Place(tuple(twin(node) for node in place.after), known)
