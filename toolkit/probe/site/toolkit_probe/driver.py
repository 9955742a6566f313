"""The CUDA driver's calls on graphs and events, through ctypes and the libraries that the process has loaded.

The driver rather than the runtime: its functions keep name and signature from one CUDA release to the next,
and their errors are no `last error` of the runtime, which torch would find and raise in the engine. Handles
are the same in both. Only the launch goes through the runtime, so that a trace shows it as it shows torch's.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_NOT_READY = 600  # CUDA_ERROR_NOT_READY
_CAPTURING = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL
_EDGE_BYTES = 8  # of CUgraphEdgeData

_KINDS = {"p": ctypes.c_void_p, "n": ctypes.c_size_t, "u": ctypes.c_uint, "l": ctypes.c_ulonglong}
_DRIVER = {  # cuda.h of CUDA 12.3 to 13
    "cuStreamGetCaptureInfo_v3": "ppppppp",
    "cuThreadExchangeStreamCaptureMode": "p",
    "cuGraphClone": "pp",
    "cuGraphNodeFindInClone": "ppp",
    "cuGraphGetNodes": "ppp",
    "cuGraphGetRootNodes": "ppp",
    "cuGraphNodeGetType": "pp",
    "cuGraphNodeGetDependentNodes_v2": "pppp",
    "cuGraphAddEventRecordNode": "pppnp",
    "cuGraphAddDependencies_v2": "ppppn",
    "cuGraphRemoveDependencies_v2": "ppppn",
    "cuGraphInstantiateWithFlags": "ppl",
    "cuGraphLaunch": "pp",
    "cuGraphExecDestroy": "p",
    "cuGraphDestroy": "p",
    "cuEventCreate": "pu",
    "cuEventRecordWithFlags": "ppu",
    "cuEventQuery": "p",
    "cuEventElapsedTime": "ppp",
    "cuEventDestroy_v2": "p",
}
_RUNTIME = {"cudaGraphLaunch": "pp", "cudaGetLastError": ""}


class DriverError(RuntimeError):
    """A call that failed, by name and code, or a function that the driver does not have.

    `detail` also has the arguments: other ones in every graph, so a message that is counted lacks them.
    """

    def __init__(self, said: str, detail: str | None = None) -> None:
        super().__init__(said)
        self.detail = detail or said


class Edge(NamedTuple):
    """A dependent node and the 8 bytes that say how it depends (all zero: on the whole of the node)."""

    node: int
    kind: bytes


class Driver:
    """`cuda` is the driver's library. `runtime` is the runtime's, or None where it is linked in."""

    def __init__(self, cuda: Any, runtime: Any = None) -> None:
        self._cuda = _bind(cuda, _DRIVER)
        self._runtime = None if runtime is None else _bind(runtime, _RUNTIME)

    def call(self, name: str, *arguments: Any) -> None:
        """Call one function of the driver."""
        code = self._cuda[name](*arguments)
        if code:
            given = ", ".join(_shown(one) for one in arguments)
            raise DriverError(f"{name} gave {code}", f"{name}({given}) gave {code}")

    def capture_state(self, stream: int) -> tuple[int, tuple[int, ...]]:
        """Return the graph that a stream is captured into and the nodes that its next node will follow."""
        status, graph, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t()
        nodes, edges = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_void_p()
        self.call(
            "cuStreamGetCaptureInfo_v3",
            stream,
            ctypes.byref(status),
            None,
            ctypes.byref(graph),
            ctypes.byref(nodes),
            ctypes.byref(edges),
            ctypes.byref(count),
        )
        if status.value != _CAPTURING or not graph.value:
            raise DriverError("the stream is not captured")
        return graph.value, tuple(int(nodes[index] or 0) for index in range(count.value))

    def relax(self) -> None:
        """Let the calling thread ask and allocate while another thread captures."""
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(_RELAXED)))

    def clone(self, graph: int) -> int:
        """Return a copy of a graph; the driver refuses graphs that allocate memory or branch."""
        return self._made("cuGraphClone", graph)

    def twin(self, node: int, clone: int) -> int:
        """Return the node of a copy that stands for a node of its original."""
        found = ctypes.c_void_p()
        self.call("cuGraphNodeFindInClone", ctypes.byref(found), node, clone)
        return int(found.value or 0)

    def roots(self, graph: int) -> list[int]:
        """Return the nodes that depend on no other."""
        return self._nodes("cuGraphGetRootNodes", graph)

    def kinds(self, graph: int) -> set[int]:
        """Return the types of a graph's nodes, as numbers of CUgraphNodeType."""
        found, kind = set(), ctypes.c_int()
        for node in self._nodes("cuGraphGetNodes", graph):
            self.call("cuGraphNodeGetType", node, ctypes.byref(kind))
            found.add(kind.value)
        return found

    def dependents(self, node: int) -> list[Edge]:
        """Return the nodes that depend on one directly."""
        count = ctypes.c_size_t()
        self.call("cuGraphNodeGetDependentNodes_v2", node, None, None, ctypes.byref(count))
        if not count.value:
            return []
        nodes = (ctypes.c_void_p * count.value)()
        kinds = (ctypes.c_ubyte * (_EDGE_BYTES * count.value))()
        self.call("cuGraphNodeGetDependentNodes_v2", node, nodes, kinds, ctypes.byref(count))
        taken = bytes(kinds)
        return [
            Edge(int(nodes[index] or 0), taken[index * _EDGE_BYTES : (index + 1) * _EDGE_BYTES])
            for index in range(count.value)
        ]

    def add_event(self, graph: int, after: Sequence[int], event: Event) -> int:
        """Add a node that records an event once the given nodes are done."""
        made = ctypes.c_void_p()
        self.call(
            "cuGraphAddEventRecordNode",
            ctypes.byref(made),
            graph,
            _array(after) if after else None,
            len(after),
            event.at,
        )
        return int(made.value or 0)

    def link(self, graph: int, before: int, after: Sequence[int]) -> None:
        """Let nodes depend on the whole of one."""
        if after:
            count = len(after)
            self.call(
                "cuGraphAddDependencies_v2", graph, _array([before] * count), _array(after), None, count
            )

    def unlink(self, graph: int, before: int, edge: Edge) -> None:
        """Take one dependency away."""
        kind = (ctypes.c_ubyte * _EDGE_BYTES)(*edge.kind)
        self.call("cuGraphRemoveDependencies_v2", graph, _array([before]), _array([edge.node]), kind, 1)

    def instantiate(self, graph: int, flags: int) -> int:
        """Return an executable of a graph; this takes memory on the device."""
        return self._made("cuGraphInstantiateWithFlags", graph, flags)

    def launch(self, executable: int, stream: int) -> None:
        """Put one run of an executable on a stream."""
        if self._runtime is None:
            self.call("cuGraphLaunch", executable, stream)
            return
        code = self._runtime["cudaGraphLaunch"](executable, stream)
        if code:
            self._runtime["cudaGetLastError"]()  # or torch would take it for the engine's
            raise DriverError(f"cudaGraphLaunch gave {code}")

    def event(self) -> Event:
        """Return a new event with timing."""
        return Event(self, self._made("cuEventCreate", 0))

    def record_external(self, event: Event, stream: int) -> None:
        """Record an event on a stream that is captured, as a node of its graph."""
        self.call("cuEventRecordWithFlags", event.at, stream, _EXTERNAL)

    def passed(self, event: Event) -> bool:
        """Say whether the last record of an event is done."""
        code = self._cuda["cuEventQuery"](event.at)
        if code not in (0, _NOT_READY):
            raise DriverError(f"cuEventQuery gave {code}")
        return bool(code == 0)

    def elapsed_ms(self, start: Event, end: Event) -> float:
        """Return the time between two events that are passed."""
        found = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(found), start.at, end.at)
        return found.value

    def _made(self, name: str, *arguments: Any) -> int:
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return int(made.value or 0)

    def _nodes(self, name: str, graph: int) -> list[int]:
        """Ask for the number with NULL, then for as many; an array for no nodes is an invalid value."""
        count = ctypes.c_size_t()
        self.call(name, graph, None, ctypes.byref(count))
        if not count.value:
            return []
        nodes = (ctypes.c_void_p * count.value)()
        self.call(name, graph, nodes, ctypes.byref(count))
        return [int(nodes[index] or 0) for index in range(count.value)]


class Event:
    """An event of the driver that answers as one of torch does."""

    __slots__ = ("_driver", "at")

    def __init__(self, driver: Driver, at: int) -> None:
        self._driver = driver
        self.at = at

    def query(self) -> bool:
        """Say whether its last record is done."""
        return self._driver.passed(self)

    def elapsed_time(self, end: Event) -> float:
        """Return the time from this event to another in ms."""
        return self._driver.elapsed_ms(self, end)

    def __del__(self) -> None:
        try:
            self._driver.call("cuEventDestroy_v2", self.at)
        except Exception:
            return


def loaded_driver(cuda_version: str | None) -> Driver:
    """Return the driver of this process. `cuda_version` is torch's, such as 13.0."""
    if not cuda_version:
        raise DriverError("torch has no CUDA")
    runtime = _loaded(rf"libcudart\.so\.{cuda_version.split('.')[0]}(\.|$)")
    return Driver(ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(runtime) if runtime else None)


def _loaded(pattern: str) -> str | None:
    """Return the path of a library that the process has mapped; nothing is loaded that is not."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    except OSError:
        return None
    return next((path for path in sorted(paths) if re.match(pattern, os.path.basename(path))), None)


def _bind(library: Any, signatures: dict[str, str]) -> dict[str, Any]:
    found = {}
    for name, kinds in signatures.items():
        function = getattr(library, name, None)
        if function is None:
            raise DriverError(f"the driver has no {name}")
        function.argtypes = [_KINDS[kind] for kind in kinds]
        function.restype = ctypes.c_int
        found[name] = function
    return found


def _shown(argument: Any) -> str:
    """Return an argument as a diagnosis gives it: handles in hex, what a pointer points at."""
    if argument is None:
        return "NULL"
    if isinstance(argument, int):
        return hex(argument)
    if isinstance(argument, ctypes.Array):
        return f"[{len(argument)}]"
    pointed = getattr(getattr(argument, "_obj", None), "value", None)
    return f"&{_shown(pointed) if pointed is None else pointed}"


def _array(nodes: Sequence[int]) -> Any:
    return (ctypes.c_void_p * len(nodes))(*nodes)
