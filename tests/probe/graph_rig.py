"""A torch with a GPU, the probe's hooks on its graphs and the driver under both, for tests."""

from __future__ import annotations

from typing import Any

import pytest
from toolkit_probe import trial
from toolkit_probe.driver import Driver
from toolkit_probe.event_set import unreadable
from toolkit_probe.in_graph import InGraph
from toolkit_probe.recorder import Recorder
from toolkit_probe.recording import Cycle

from tests.probe.fake_driver import FakeCuda, FakeRuntime, Graph
from tests.probe.fake_torch import Gpu, install


class Rig:
    """A torch with a GPU, the probe's hooks on its graphs, and the driver's library under both."""

    def __init__(self, patch: pytest.MonkeyPatch, external: bool = True, add_nodes: bool = False) -> None:
        self.gpu = Gpu()
        self.torch = install(patch, self.gpu, external)
        self.cuda = FakeCuda(self.gpu)
        self.runtime = FakeRuntime(self.cuda)
        self.watch = InGraph(Recorder(), steps=True, add_nodes=add_nodes)
        self.watch.wanted = lambda: True
        self.watch.load = lambda torch: Driver(self.cuda, self.runtime)
        kind = self.torch.cuda.graphs.CUDAGraph
        kind.__init__ = self.watch.wrap_made(kind.__init__)
        kind.capture_begin = self.watch.wrap_begin(kind.capture_begin)
        kind.capture_end = self.watch.wrap_end(kind.capture_end)
        patch.setattr(trial.time, "sleep", lambda seconds: self.gpu.run())

    def graph(self, draws: int = 0, forwards: bool = True) -> Any:
        """Capture a graph: 20 us, 250 us that are a draft forward or not, 30 us."""
        graph = self.torch.cuda.CUDAGraph()
        graph.draws = draws
        with self.torch.cuda.graph(graph):
            self.gpu.kernel(20)
            marks = self.watch.recorder.marks if forwards else None
            if marks is not None:
                marks.begin()
            self.gpu.kernel(250)
            if marks is not None:
                marks.end()
            self.gpu.kernel(30)
        return graph

    def cycle(self, graph: Any, sampled: bool = True, times: int = 1, turn: int = 0) -> Cycle:
        """Replay it in the draft stage of a cycle and let the GPU work."""
        cycle = Cycle(0, None, sampled, turn)
        cycle.open_stage, self.watch.recorder.cycle = "draft", cycle
        for _ in range(times):
            graph.replay()
        self.watch.recorder.cycle = None
        self.gpu.run()
        return cycle

    def copies(self) -> list[Graph]:
        """Return the graphs that we own."""
        return [graph for graph in self.cuda.graphs.values() if graph.twins]

    def ready(self, graph: Any) -> Any:
        """Let a first sampled cycle ask for the copy, and the writer make it."""
        self.cycle(graph)
        self.watch.work()
        return graph


def sets(cycle: Cycle) -> list[Any]:
    """Return the events of each graph that ran; None for one that ran without."""
    return [None if isinstance(events, str) else events for _, events in cycle.graphs]


def readable(found: list[Any]) -> bool:
    return None not in found and unreadable(found) is None
