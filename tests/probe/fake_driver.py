# ruff: noqa: N802 -- the driver's own names
"""A CUDA driver for tests: the functions that the probe calls, over small graphs, with ctypes arguments.

`FakeCuda(gpu)` sees what the tests' torch captures as a chain of nodes. A test may also make a `Graph` of any
shape and say where its stream stands.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable
from typing import Any

EDGE = bytes(8)
PROGRAMMATIC = bytes([1, 0, 1, 0, 0, 0, 0, 0])


class Graph:
    """Nodes by number, with the work of each; edges with their 8 bytes."""

    numbers = itertools.count(0x7F00_0000_1000, 16)  # as wide as pointers are

    def __init__(self) -> None:
        self.at = next(self.numbers)
        self.nodes: dict[int, tuple[int, Callable[[], None]]] = {}
        self.edges: dict[tuple[int, int], bytes] = {}
        self.twins: dict[int, int] = {}
        self.destroyed = False

    def add(self, work: Callable[[], None], *after: int, kind: int = 0, edge: bytes = EDGE) -> int:
        node = next(self.numbers)
        self.nodes[node] = (kind, work)
        for before in after:
            assert before in self.nodes, "depends on a node of another graph"
            self.edges[before, node] = edge
        return node

    def later(self, node: int) -> list[int]:
        return [after for before, after in self.edges if before == node]

    def order(self) -> list[int]:
        """Return the nodes so that each comes after those that it depends on; fail on a circle."""
        left = {node: {before for before, after in self.edges if after == node} for node in self.nodes}
        found: list[int] = []
        while left:
            ready = [node for node, before in left.items() if not before]
            assert ready, "the graph has a circle"
            for node in ready:
                del left[node]
            for before in left.values():
                before.difference_update(ready)
            found += ready
        return found

    def reach(self, node: int) -> set[int]:
        """Return all nodes that wait for one."""
        found: set[int] = set()
        ahead = [node]
        while ahead:
            ahead = [after for one in ahead for after in self.later(one) if after not in found]
            found.update(ahead)
        return found


class Stamp:
    """A driver's event. Launching a graph that records it makes it pending until the GPU comes to it."""

    def __init__(self, gpu: Any) -> None:
        self.at = next(Graph.numbers)
        self.ms: float | None = None
        self.pending = 0
        self._gpu = gpu

    def launched(self) -> None:
        self.pending += 1

    def record(self) -> None:
        self.pending = max(0, self.pending - 1)
        self.ms = self._gpu.now_ms

    def passed(self) -> bool:
        return self.ms is not None and not self.pending


class FakeCuda:
    """libcuda.so.1. `fail` holds the code that a function gives instead of working."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.fail: dict[str, int] = {}
        self.said: list[str] = []
        self.graphs: dict[int, Graph] = {}
        self.executables: dict[int, list[Callable[[], None]]] = {}
        self.events: dict[int, Stamp] = {}
        self.open: Graph | None = None
        self.after: list[int] = []
        self._of: Any = None
        self._kept: Any = None
        if gpu is not None:
            gpu.raw = lambda work: self._of_work[id(work)]
        self._of_work: dict[int, int] = {}  # the graph of each list that the tests' torch has captured
        for name in vars(FakeCuda):
            if name.startswith(("cu", "cuda")):
                setattr(self, name, functools.partial(self._answer, name))

    def _answer(self, name: str, *arguments: Any) -> int:
        self.said.append(name)
        if name in self.fail:
            return self.fail[name]
        return int(getattr(FakeCuda, name)(self, *arguments) or 0)

    def capture(self, graph: Graph, *after: int) -> None:
        """Say what is captured and where the stream stands."""
        self.graphs[graph.at] = graph
        self.open, self.after = graph, list(after)

    def _follow(self) -> None:
        """Take up what the tests' torch has captured since."""
        works = self.gpu.capture if self.gpu is not None else None
        if works is None:
            return
        if works is not self._of:
            self._of = works
            self.capture(Graph())
            self._of_work[id(works)] = self.open.at if self.open else 0
        assert self.open is not None
        for work in works[len(self.open.nodes) :]:
            self.after = [self.open.add(work, *self.after)]

    def cuStreamGetCaptureInfo_v3(
        self, stream: int, status: Any, number: Any, graph: Any, nodes: Any, edges: Any, count: Any
    ) -> None:
        self._follow()
        if self.open is None or (self.gpu is not None and self.gpu.capture is None):
            status._obj.value = 0
            return
        status._obj.value, graph._obj.value, count._obj.value = 1, self.open.at, len(self.after)
        self._kept = (ctypes.c_void_p * max(1, len(self.after)))(*self.after)
        nodes._obj.contents = ctypes.c_void_p.from_buffer(self._kept)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> None:
        assert mode._obj.value == 2

    def cuGraphClone(self, made: Any, graph: int) -> None:
        origin, copy = self.graphs[graph], Graph()
        for node, (kind, work) in origin.nodes.items():
            copy.twins[node] = copy.add(work, kind=kind)
        copy.edges = {(copy.twins[a], copy.twins[b]): edge for (a, b), edge in origin.edges.items()}
        self.graphs[copy.at] = copy
        made._obj.value = copy.at

    def cuGraphNodeFindInClone(self, made: Any, node: int, clone: int) -> None:
        made._obj.value = self.graphs[clone].twins[node]

    def cuGraphGetNodes(self, graph: int, nodes: Any, count: Any) -> int:
        return _fill(list(self.graphs[graph].nodes), nodes, count)

    def cuGraphGetRootNodes(self, graph: int, nodes: Any, count: Any) -> int:
        known = self.graphs[graph]
        led = {after for _, after in known.edges}
        return _fill([node for node in known.nodes if node not in led], nodes, count)

    def cuGraphNodeGetType(self, node: int, kind: Any) -> None:
        kind._obj.value = self._home(node).nodes[node][0]

    def cuGraphNodeGetDependentNodes_v2(self, node: int, nodes: Any, kinds: Any, count: Any) -> int:
        home = self._home(node)
        later = home.later(node)
        if kinds is not None:
            kinds[:] = b"".join(home.edges[node, after] for after in later)
        return _fill(later, nodes, count)

    def cuGraphAddEventRecordNode(self, made: Any, graph: int, after: Any, count: int, event: int) -> None:
        assert len(after or ()) == count
        made._obj.value = self.graphs[graph].add(self._stamping(event), *(after or ()), kind=7)

    def cuGraphAddDependencies_v2(self, graph: int, before: Any, after: Any, kinds: Any, count: int) -> None:
        assert kinds is None and len(before) == len(after) == count
        for pair in zip(before, after, strict=True):
            assert pair not in self.graphs[graph].edges, "the dependency is there already"
            self.graphs[graph].edges[pair] = EDGE

    def cuGraphRemoveDependencies_v2(
        self, graph: int, before: Any, after: Any, kinds: Any, count: int
    ) -> None:
        edges = self.graphs[graph].edges
        assert count == 1 and edges[before[0], after[0]] == bytes(kinds), "another kind of dependency"
        del edges[before[0], after[0]]

    def cuGraphInstantiateWithFlags(self, made: Any, graph: int, flags: int) -> None:
        known = self.graphs[graph]
        made._obj.value = next(Graph.numbers)
        self.executables[made._obj.value] = [known.nodes[node][1] for node in known.order()]

    def cuGraphLaunch(self, executable: int, stream: int) -> None:
        for work in self.executables[executable]:
            event = getattr(work, "__self__", None)
            if isinstance(event, Stamp):
                event.launched()
            self.gpu.push(work)

    def cuGraphExecDestroy(self, executable: int) -> None:
        del self.executables[executable]

    def cuGraphDestroy(self, graph: int) -> None:
        del self.graphs[graph]

    def cuEventCreate(self, made: Any, flags: int) -> None:
        stamp = Stamp(self.gpu)
        self.events[stamp.at] = stamp
        made._obj.value = stamp.at

    def cuEventRecordWithFlags(self, event: int, stream: int, flags: int) -> None:
        assert flags == 1 and self.gpu.capture is not None
        self.gpu.push(self._stamping(event))

    def cuEventQuery(self, event: int) -> int:
        if self.gpu.capture is not None:
            raise AssertionError("asked about an event while a graph is captured")
        return 0 if self.events[event].passed() else 600

    def cuEventElapsedTime(self, found: Any, start: int, end: int) -> int:
        first, last = self.events[start], self.events[end]
        if not (first.passed() and last.passed()):
            return 600
        found._obj.value = last.ms - first.ms
        return 0

    def cuEventDestroy_v2(self, event: int) -> None:
        del self.events[event]

    def _home(self, node: int) -> Graph:
        return next(graph for graph in self.graphs.values() if node in graph.nodes)

    def _stamping(self, event: int) -> Callable[[], None]:
        return self.events[event].record


class FakeRuntime:
    """libcudart: launches through the driver, and remembers its last error."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.launches, self.last, self.code = 0, 0, 0
        self.cudaGraphLaunch = functools.partial(self._launch, cuda)
        self.cudaGetLastError = functools.partial(self._forget)

    def _launch(self, cuda: FakeCuda, executable: int, stream: int) -> int:
        self.launches += 1
        self.last = self.code or cuda._answer("cuGraphLaunch", executable, stream)
        return self.last

    def _forget(self) -> int:
        last, self.last = self.last, 0
        return last


def _fill(found: list[int], nodes: Any, count: Any) -> int:
    """Give the number, or as many as there is room for; no room is an invalid value, as on an H200."""
    if nodes is None:
        count._obj.value = len(found)
    elif not count._obj.value:
        return 1
    else:
        nodes[: len(found)] = found
    return 0
