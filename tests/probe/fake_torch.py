"""A torch for tests: a GPU whose clock the test turns, events that are passed when it comes to them.

`install(monkeypatch)` puts it into sys.modules. Work is queued; `gpu.run()` lets the GPU do it.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest


class Gpu:
    """One queue and a clock in ms."""

    def __init__(self) -> None:
        self.now_ms = 100.0
        self.queue: deque[Callable[[], None]] = deque()
        self.capture: list[Callable[[], None]] | None = None
        self.refuse_external = False
        self.no_keeping = False  # a torch before 2.8
        self.records = 0
        self.replays = 0
        self.offset = 0  # of the random generator
        self.waits = 0
        self.raw: Callable[[Any], int] = lambda work: 1  # the driver's number of a captured graph

    def push(self, work: Callable[[], None]) -> None:
        (self.queue if self.capture is None else self.capture).append(work)

    def kernel(self, us: float) -> None:
        self.push(lambda: self._advance(us))

    def run(self, pieces: int | None = None) -> None:
        for _ in range(len(self.queue) if pieces is None else pieces):
            self.queue.popleft()()

    def _advance(self, us: float) -> None:
        self.now_ms += us / 1000


class Event:
    """An event; `gpu` is set on the class by `install`."""

    gpu: Gpu

    def __init__(self, enable_timing: bool = False, external: bool = False) -> None:
        self.external = external
        self.at: float | None = None
        self.pending = 0

    def record(self, stream: Any = None) -> None:
        self.gpu.records += 1
        if self.gpu.capture is not None and not self.external:
            raise RuntimeError("an event inside a capture has to be external")
        if self.gpu.capture is not None and self.gpu.refuse_external:
            raise RuntimeError("the driver refuses external events")
        if self.gpu.capture is None:
            self.pending += 1
            self.gpu.push(self._pass)
        else:
            self.gpu.push(self._replay)

    def query(self) -> bool:
        if self.gpu.capture is not None:
            raise AssertionError("asked about an event while a graph is captured")
        return self.at is not None and self.pending == 0

    def elapsed_time(self, end: Event) -> float:
        assert self.at is not None and end.at is not None, "asked before both were passed"
        return end.at - self.at

    def synchronize(self) -> None:
        self.gpu.waits += 1

    def _pass(self) -> None:
        self.pending -= 1
        self.at = self.gpu.now_ms

    def _replay(self) -> None:
        self.pending = max(0, self.pending - 1)
        self.at = self.gpu.now_ms

    def launched(self) -> None:
        """A graph that records it was launched: its last time is gone until the GPU comes to it."""
        self.pending += 1


class CUDAGraph:
    """Holds the work that was captured."""

    gpu: Gpu
    draws = 0  # random numbers a replay

    def __init__(self, keep_graph: bool = False) -> None:
        if keep_graph and self.gpu.no_keeping:
            raise TypeError("__init__() got an unexpected keyword argument 'keep_graph'")
        self.kept = keep_graph
        self.work: list[Callable[[], None]] = []
        self.executables = 0

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        assert self.gpu.capture is None, "one capture at a time"
        self.gpu.capture = []

    def capture_end(self) -> None:
        self.work, self.gpu.capture = self.gpu.capture or [], None
        if not self.kept:
            self.instantiate()

    def instantiate(self) -> None:
        self.executables += 1

    def replay(self) -> None:
        self.gpu.replays += 1
        self.gpu.offset += self.draws
        launch(self.gpu, self.work)

    def reset(self) -> None:
        self.work = []

    def raw_cuda_graph(self) -> int:
        if not self.kept:
            raise RuntimeError("keep_graph must be True")
        return self.gpu.raw(self.work)


def launch(gpu: Gpu, works: list[Callable[[], None]]) -> None:
    """Queue what a graph does; its events are not passed from now on."""
    for work in works:
        event = getattr(work, "__self__", None)
        if hasattr(event, "launched"):
            event.launched()
        gpu.push(work)


class Capture:
    """torch.cuda.graph."""

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, **_: Any) -> None:
        self.graph = cuda_graph

    def __enter__(self) -> None:
        self.graph.capture_begin()

    def __exit__(self, *error: object) -> None:
        self.graph.capture_end()


class TrialGpu(Gpu):
    """A GPU that works at once: for engines that run in a test's subprocess."""

    def push(self, work: Callable[[], None]) -> None:
        if self.capture is None:
            work()
        else:
            self.capture.append(work)


def make(gpu: Gpu, external: bool = True) -> types.ModuleType:
    """Return a torch module around a GPU; `external=False` is an older one."""
    event = type("Event", (Event,), {"gpu": gpu})
    if not external:
        event = type("Event", (event,), {"__init__": lambda self, enable_timing=False: Event.__init__(self)})
    graph = type("CUDAGraph", (CUDAGraph,), dict(vars(CUDAGraph), gpu=gpu))
    torch = types.ModuleType("torch")
    graphs = types.ModuleType("torch.cuda.graphs")
    cuda = types.ModuleType("torch.cuda")
    graphs.__dict__.update(CUDAGraph=graph, graph=Capture)
    cuda.__dict__.update(
        Event=event,
        CUDAGraph=graph,
        graph=Capture,
        graphs=graphs,
        is_available=lambda: True,
        is_initialized=lambda: True,
        is_current_stream_capturing=lambda: gpu.capture is not None,
        current_device=lambda: 1,
        current_stream=lambda: types.SimpleNamespace(cuda_stream=7),
        default_generators=[None, types.SimpleNamespace(get_offset=lambda: gpu.offset)],
        set_device=lambda device: cuda.__dict__.setdefault("devices", []).append(device),
        synchronize=lambda: setattr(gpu, "waits", gpu.waits + 1),
    )
    version = types.SimpleNamespace(cuda="13.0")
    torch.__dict__.update(cuda=cuda, __version__="2.11.0", gpu=gpu, version=version)
    return torch


def install(monkeypatch: pytest.MonkeyPatch, gpu: Gpu, external: bool = True) -> types.ModuleType:
    """Put a torch into sys.modules for one test."""
    torch = make(gpu, external)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.cuda", torch.cuda)
    monkeypatch.setitem(sys.modules, "torch.cuda.graphs", torch.cuda.graphs)
    return torch
