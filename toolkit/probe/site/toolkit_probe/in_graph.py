"""Times inside captured graphs: at the first and the last node, and around each draft forward.

Ways, tried in this order on small graphs of our own before the engine's first one is touched:

- copies: the engine's graph stays as it is. While it is captured, places are noted; copies of it get events
  there and run instead of it in sampled cycles (`graph_marks.py`, `graph_exec.py`). They are made before the
  capture ends.
- copies of kept graphs: the same, made when the capture is over. For that, torch is asked to keep the graph
  beside the executable that it makes of it, which takes some of the host's memory and changes no replay.
- nodes: torch's external events are captured into the engine's graph, and stamped in every replay, also when
  nothing is recorded: about 1.6 us an event on an H200, 0.5 to 1.1 % of the throughput of SGLang 0.5.15 at
  TP 1 and 5 draft steps. Only where TOOLKIT_PROBE=steps says so; unset, graphs are then left as they are.

What fails for one graph leaves that graph as the engine made it.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from .complaints import complain
from .driver import Driver, loaded_driver
from .event_set import EventSet
from .graph_exec import GONE, GraphCopy
from .graph_marks import Marks, Sketch
from .graph_nodes import NodeEvents
from .recorder import Recorder
from .recording import Cycle
from .trial import find_way, try_nodes

_ADVICE = "TOOLKIT_PROBE=steps adds event nodes to the engine's graphs, which cost about 1.6 us each"
_FLAGS = 1  # CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, as torch asks for


class InGraph:
    """Puts events into graphs. `lock` is held while the driver is asked about events by another thread.

    A question about an event breaks a capture that another thread has open, so `capturing` forbids it.
    `add_nodes` allows events in the engine's own graphs, which cost it time in every replay.
    """

    def __init__(self, recorder: Recorder, steps: bool, add_nodes: bool = False) -> None:
        self.recorder = recorder
        self.steps = steps
        self.add_nodes = add_nodes
        self.wanted: Callable[[], bool] = bool
        self.load: Callable[[Any], Driver] = lambda torch: loaded_driver(torch.version.cuda)
        self.lock = threading.Lock()
        self.capturing = 0
        self.graphs = 0
        self.without: dict[str, int] = {}  # graphs that stay as they are, by why
        self.unavailable: str | None = None
        self.always_on: str | None = None  # why the engine's own graphs hold the events
        self.off: str | None = None  # why graphs are not copied, where nothing else is allowed
        self.event_pair_us: float | None = None  # from one event to the next with nothing between
        self.keeps: str | None = None  # why torch has to keep graphs, for them to be copied
        self._kept: weakref.WeakSet[Any] = weakref.WeakSet()  # the graphs that torch keeps for us
        self._driver: Driver | None = None
        self._tried = False
        self._open: list[tuple[Any, Marks | EventSet | None]] = []
        self._asked: deque[GraphCopy] = deque()  # to be made executable
        self._gone: deque[GraphCopy] = deque()  # to be given back
        self._own_generators: weakref.WeakSet[Any] = weakref.WeakSet()

    def status(self) -> str:
        """Return ok and what restricts it, `no graphs yet`, `off: why, what to do`, or `unavailable: why`."""
        if not self.steps:
            return "unavailable: the mode is stages"
        if self.off:
            return f"off: copies of graphs do not work here ({self.off}); {_ADVICE}"
        if self.unavailable:
            return f"unavailable: {self.unavailable}"
        if not self.graphs:
            return f"unavailable: {next(iter(self.without))}" if self.without else "no graphs yet"
        said = ["ok"]
        if self.always_on:
            said.append(f"event nodes always on: {self.always_on}")
        if self.keeps:
            said.append(f"copies of kept graphs: {self.keeps}")
        said += [f"{count} graphs without events: {why}" for why, count in self.without.items()]
        return ", ".join(said)

    def wrap_made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `CUDAGraph.__init__` that lets torch keep a wanted graph where only such ones are copied."""

        def made(graph: Any, *args: Any, **kwargs: Any) -> None:
            if args or kwargs or not self._keeping():
                original(graph, *args, **kwargs)
                return
            original(graph, keep_graph=True)
            self._kept.add(graph)

        return made

    def wrap_begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `CUDAGraph.capture_begin` that marks the place before the first node."""

        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            events = self._prepare()
            with self.lock:
                self.capturing += 1
            try:
                result = original(graph, *args, **kwargs)
            except BaseException:
                self._leave()
                raise
            self._begin(graph, events)
            return result

        return capture_begin

    def wrap_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `CUDAGraph.capture_end` that marks the place behind the last node."""

        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            events = self._finish(graph)
            try:
                result = original(graph, *args, **kwargs)
                if graph in self._kept:
                    graph.instantiate()  # as torch does at this place with a graph that it does not keep
            finally:
                self._leave()
            if events is not None:
                self._attach(graph, events)
            return result

        return capture_end

    def wrap_generator(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `CUDAGraph.register_generator_state` that says which graphs bring a generator."""

        def register_generator_state(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._own_generators.add(graph)
            return original(graph, *args, **kwargs)

        return register_generator_state

    def adopt(self) -> None:
        """Let the calling thread make copies executable; it has the engine's device."""
        try:
            if self._driver is not None:
                self._driver.relax()
        except Exception as error:
            complain("the writer's capture mode", error)

    def work(self) -> None:
        """Make the copies executable that sampled cycles asked for; give back those whose graph is gone."""
        while self._asked or self._gone:
            with self.lock:
                if self.capturing:
                    return
                self._next()

    def _next(self) -> None:
        try:
            if self._gone:
                self._gone.popleft().drop()
            elif self._asked:
                copy = self._asked.popleft()
                copy.build()
                if copy.why and copy.why != GONE:
                    self._leave_out(copy.why)
                elif copy.lacking:
                    self._leave_out(f"inside: {copy.lacking[0]}")
        except Exception as error:
            complain("making or giving back a graph's copy", error)

    def _leave(self) -> None:
        with self.lock:
            self.capturing = max(0, self.capturing - 1)

    def _leave_out(self, why: str) -> None:
        self.without[why] = self.without.get(why, 0) + 1
        complain("a graph without events", why)

    def _prepare(self) -> Marks | EventSet | None:
        """Return an empty set for a graph that is wanted; None leaves the graph as it is."""
        try:
            if not self.steps or self.capturing or not self.wanted():
                return None
            while self._gone:
                self._next()
            torch = sys.modules["torch"]
            if not self._possible(torch):
                return None
            if self._driver is not None:
                return Marks(self._driver, lambda: int(torch.cuda.current_stream().cuda_stream))
            return EventSet(lambda: torch.cuda.Event(enable_timing=True, external=True))
        except Exception as error:
            self.unavailable = str(error)
            return None

    def _keeping(self) -> bool:
        """Say whether torch has to keep the graph that is being made. Never raises."""
        try:
            if not self.steps or self.capturing or not self.wanted():
                return False
            torch = sys.modules["torch"]
            if not self._tried and torch.cuda.is_current_stream_capturing():
                return False
            return self._possible(torch) and self.keeps is not None
        except Exception as error:
            complain("a graph that is being made", error)
            return False

    def _possible(self, torch: Any) -> bool:
        """Say whether there is a way; the first time, find it."""
        if not self._tried:
            self._tried = True
            self.unavailable = "on trial"  # or the trial's own graphs would be ours to watch
            self.unavailable = self._try(torch)
        return self.unavailable is None

    def _try(self, torch: Any) -> str | None:
        """Find the way; return why there is none."""
        way = find_way(self.load, torch)
        if way.driver is not None:
            self._driver = way.driver
            self.keeps = way.why if way.kept else None
            self.event_pair_us = way.event_pair_us
            return None
        if not self.add_nodes:
            self.off = way.why
            return way.why
        refused = try_nodes(torch)
        self.always_on = None if refused else way.why
        return refused

    def _begin(self, graph: Any, events: Marks | EventSet | None) -> None:
        if events is not None:
            try:
                events.record_first()
                self.recorder.marks = events
            except Exception as error:
                self._leave_out(f"first node: {error}")
                events = None
        self._open.append((graph, events))

    def _finish(self, graph: Any) -> Sketch | Marks | EventSet | None:
        """Mark the last node; a kept graph is copied later."""
        if not self._open:
            return None
        events = self._open.pop()[1]
        if events is None:
            return None
        self.recorder.marks = None
        try:
            events.record_last()
            return events.copied() if isinstance(events, Marks) and self.keeps is None else events
        except Exception as error:
            self._leave_out(f"last node: {error}")
            return None

    def _attach(self, graph: Any, events: Sketch | Marks | EventSet) -> None:
        """Let this graph, and no other, say when it is replayed. It holds its events and its copy."""
        try:
            if isinstance(events, EventSet):
                self._attach_nodes(graph, NodeEvents(events))
            elif isinstance(events, Sketch):
                self._attach_copy(graph, events)
            elif graph in self._kept:
                self._attach_copy(graph, events.copied(int(graph.raw_cuda_graph())))
            else:
                raise RuntimeError("torch does not keep it")
            self.graphs += 1
        except Exception as error:
            self._leave_out(f"replay: {error}")

    def _attach_nodes(self, graph: Any, nodes: NodeEvents) -> None:
        def overwritten() -> None:
            if nodes.events.cycle is not None:
                nodes.overwritten(may_ask=not self.capturing)

        _watch(graph, self.recorder, nodes.replay, before=overwritten)

    def _attach_copy(self, graph: Any, sketch: Sketch) -> None:
        torch: Any = sys.modules["torch"]
        copy = GraphCopy(self._driver, sketch, torch, _FLAGS, self._asked.append)  # type: ignore[arg-type]
        if graph in self._own_generators or (graph not in self._kept and _keeps(graph)):
            self._gone.append(copy)
            raise RuntimeError("the engine brings a generator, or keeps the graph to change it")

        def drop() -> None:
            copy.why = GONE
            self._gone.append(copy)

        def replayed(cycle: Cycle, phase: str, plain: Callable[[], Any]) -> Any:
            return plain() if self.capturing else copy.replay(cycle, phase, plain)

        _watch(graph, self.recorder, replayed, drop)
        weakref.finalize(graph, drop).atexit = False


def _watch(
    graph: Any,
    recorder: Recorder,
    replayed: Callable[[Cycle, str, Callable[[], Any]], Any],
    drop: Callable[[], None] | None = None,
    before: Callable[[], None] | None = None,
) -> None:
    """Give one graph a `replay` that asks `replayed` in sampled cycles. The graph is not held by it.

    `before` is called ahead of every replay.
    """
    reference, kind = weakref.ref(graph), type(graph)

    def replay(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before()
        cycle = recorder.cycle
        if cycle is None or cycle.open_stage is None:
            return kind.replay(reference(), *args, **kwargs)
        cycle.graph[cycle.open_stage] = True
        if not cycle.sampled:
            return kind.replay(reference(), *args, **kwargs)
        return replayed(cycle, cycle.open_stage, lambda: kind.replay(reference(), *args, **kwargs))

    def reset(*args: Any, **kwargs: Any) -> Any:
        known = reference()
        vars(known).pop("replay", None)
        vars(known).pop("reset", None)
        if drop is not None:
            drop()
        return kind.reset(known, *args, **kwargs)

    graph.replay = replay
    if hasattr(kind, "reset"):
        graph.reset = reset


def _keeps(graph: Any) -> bool:
    """Say whether the engine asked torch to keep the graph, which torch tells by giving it out."""
    try:
        return bool(graph.raw_cuda_graph())
    except Exception:
        return False
