"""Events in a copy of a graph: where they stand, and that the engine's order is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toolkit_probe.driver import Driver, DriverError, loaded_driver
from toolkit_probe.event_set import FORWARDS
from toolkit_probe.graph_marks import Marks

from tests.probe.fake_driver import EDGE, PROGRAMMATIC, FakeCuda, Graph
from tests.probe.fake_torch import Gpu


def nothing() -> None:
    """Be a kernel."""


class Capture:
    """Streams that are captured into one graph, as the driver does it; `streams[0]` is marked."""

    def __init__(self, streams: int = 1) -> None:
        self.gpu = Gpu()
        self.cuda = FakeCuda(None)
        self.graph = Graph()
        self.streams: list[list[int]] = [[] for _ in range(streams)]
        self.marks = Marks(Driver(self.cuda), lambda: 7)

    def kernel(self, stream: int = 0, edge: bytes = EDGE) -> int:
        node = self.graph.add(nothing, *self.streams[stream], edge=edge)
        self.streams[stream] = [node]
        return node

    def wait(self, stream: int, other: int) -> None:
        """Let a stream wait for what another one has so far."""
        self.streams[stream] = list(dict.fromkeys(self.streams[stream] + self.streams[other]))

    def mark(self) -> int:
        self.cuda.capture(self.graph, *self.streams[0])
        return self.marks._mark()

    def copy(self) -> tuple[Graph, Any, list[int]]:
        """Return a view with an event at every place, and its nodes that stand for the engine's."""
        self.marks._pairs[FORWARDS] = [(place, place) for place in range(len(self.marks._places))]
        sketch = self.marks.copied()
        base = self.cuda.graphs[sketch.graph]
        at, events = sketch.view(FORWARDS)
        copy = self.cuda.graphs[at]
        copy.twins = {node: copy.twins[base.twins[node]] for node in self.graph.nodes}
        return copy, events, [copy.twins[node] for node in self.graph.nodes]


def event_nodes(copy: Graph) -> list[int]:
    return [node for node, (kind, _) in copy.nodes.items() if kind == 7]


def test_an_event_takes_the_place_between_two_nodes() -> None:
    capture = Capture()
    capture.mark()
    capture.kernel()
    capture.mark()
    capture.kernel()
    capture.mark()
    copy, _, (one, two) = capture.copy()
    first, middle, last = event_nodes(copy)
    assert set(copy.edges) == {(first, one), (one, middle), (middle, two), (two, last)}


def test_the_engines_graph_is_not_changed() -> None:
    capture = Capture()
    capture.mark()
    node = capture.kernel()
    capture.kernel(edge=PROGRAMMATIC)
    capture.mark()
    before = dict(capture.graph.edges)
    capture.copy()
    assert capture.graph.edges == before and len(capture.graph.nodes) == 2 and node in capture.graph.nodes


def test_a_programmatic_dependency_is_kept_except_where_an_event_stands() -> None:
    capture = Capture()
    capture.mark()
    capture.kernel()
    capture.kernel(edge=PROGRAMMATIC)
    capture.mark()
    capture.kernel(edge=PROGRAMMATIC)
    capture.mark()
    copy, _, (one, two, three) = capture.copy()
    assert copy.edges[one, two] == PROGRAMMATIC
    assert (two, three) not in copy.edges and copy.edges[event_nodes(copy)[1], three] == EDGE


def test_a_stream_that_was_forked_off_before_a_mark_does_not_wait_for_it() -> None:
    capture = Capture(streams=2)
    capture.mark()
    capture.kernel()
    capture.wait(1, 0)
    side = capture.kernel(1)
    capture.mark()
    later = capture.kernel()
    capture.wait(0, 1)
    capture.mark()
    copy, _, _ = capture.copy()
    middle = event_nodes(copy)[1]
    assert copy.twins[later] in copy.reach(middle) and copy.twins[side] not in copy.reach(middle)


def test_a_stream_that_joined_before_a_mark_makes_no_circle() -> None:
    capture = Capture(streams=2)
    capture.mark()
    capture.kernel()
    capture.wait(1, 0)
    capture.kernel(1)
    capture.wait(0, 1)
    capture.mark()  # behind two nodes, of which the second depends on the first
    capture.kernel()
    capture.mark()
    copy, _, _ = capture.copy()
    assert len(copy.order()) == 6


def test_an_empty_graph_has_one_place() -> None:
    capture = Capture()
    assert capture.mark() == capture.mark() == 0


def test_an_empty_graph_is_not_copied() -> None:
    capture = Capture()
    capture.mark()
    with pytest.raises(DriverError, match="the copy has no nodes"):
        capture.copy()
    assert list(capture.cuda.graphs.values()) == [capture.graph]


def test_torch_keeping_another_graph_than_the_captured_one_is_found_out() -> None:
    capture = Capture()
    capture.mark()
    with pytest.raises(DriverError, match="keeps another graph"):
        capture.marks.copied(Graph().at)


def test_a_copy_that_fails_is_given_back() -> None:
    capture = Capture()
    capture.mark()
    capture.kernel()
    capture.mark()
    capture.cuda.fail = {"cuGraphNodeFindInClone": 1}
    with pytest.raises(DriverError, match="cuGraphNodeFindInClone gave 1"):
        capture.copy()
    assert list(capture.cuda.graphs.values()) == [capture.graph]


def test_another_graph_than_the_marked_one_is_refused() -> None:
    capture = Capture()
    capture.mark()
    capture.graph = Graph()
    with pytest.raises(DriverError, match="another graph"):
        capture.mark()


def test_a_process_without_cuda_has_no_driver() -> None:
    with pytest.raises(DriverError, match="torch has no CUDA"):
        loaded_driver(None)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("kernel"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("wait"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("mark"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(steps)
def test_whatever_is_captured_keeps_its_order_and_has_each_event_at_its_place(program: list[Any]) -> None:
    capture = Capture(streams=3)
    capture.mark()
    seen: list[tuple[set[int], set[int]]] = [(set(), set())]
    own = []  # nodes of the stream that is marked
    for what, stream, other in program:
        if what == "kernel":
            node = capture.kernel(stream, PROGRAMMATIC if other else EDGE)
            own += [] if stream else [node]
        elif what == "wait":
            capture.wait(stream, other)
        elif capture.mark() == len(seen):
            seen.append((set(capture.streams[0]), set(capture.graph.nodes)))
    assume(capture.graph.nodes)
    copy, _, _ = capture.copy()
    twin = copy.twins
    assert len(copy.order()) == len(copy.nodes), "no circle"
    for node in capture.graph.nodes:
        assert {twin[after] for after in capture.graph.reach(node)} <= copy.reach(twin[node])
    for event, (before, there) in zip(event_nodes(copy), seen, strict=True):
        ahead = {twin[node] for node in own if node not in there} if before else set(twin.values())
        assert all(event in copy.reach(twin[node]) for node in before)
        assert ahead <= copy.reach(event)
        assert not {twin[node] for node in there} & copy.reach(event), "nothing of before waits for it"
