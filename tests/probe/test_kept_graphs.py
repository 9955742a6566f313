"""Graphs that torch is asked to keep, where a graph cannot be copied before its capture is over."""

from __future__ import annotations

import pytest
from toolkit_probe.event_set import Reading, read_sets

from tests.probe.graph_rig import Rig, sets


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig that may add nothing to the engine's graphs."""
    return Rig(monkeypatch)


def only_kept(rig: Rig) -> Rig:
    """Let the driver refuse to copy a graph whose capture is open."""
    clone = rig.cuda.cuGraphClone
    rig.cuda.cuGraphClone = lambda made, graph: 1 if rig.gpu.capture is not None else clone(made, graph)
    return rig


def test_where_an_open_capture_cannot_be_copied_torch_keeps_the_graph_and_it_is_copied_then(rig: Rig) -> None:
    graph = only_kept(rig).graph()
    assert len(graph.work) == 3 and graph.kept and graph.executables == 1, "executable when its capture ends"
    assert rig.watch.status().startswith(
        "ok, copies of kept graphs: a copy inside the capture: cuGraphClone(&NULL, 0x"
    )
    torchs, ours = rig.gpu.replays, rig.runtime.launches
    reading = read_sets(sets(rig.cycle(rig.ready(graph))))
    assert isinstance(reading, Reading) and reading.graph_us == pytest.approx(300)
    reading = read_sets(sets(rig.cycle(graph, turn=1)))
    assert isinstance(reading, Reading) and reading.steps_us == pytest.approx((250,))
    assert (rig.gpu.replays - torchs, rig.runtime.launches - ours) == (1, 2), "the first sample is torch's"


def test_a_graph_that_is_not_wanted_is_not_kept(rig: Rig) -> None:
    only_kept(rig).graph()
    rig.watch.wanted = lambda: False
    graph = rig.graph()
    assert not graph.kept and graph.executables == 1 and "replay" not in vars(graph)


def test_graphs_are_kept_only_where_that_is_the_way(rig: Rig) -> None:
    assert not rig.graph().kept


def test_a_kept_graph_without_events_still_runs_as_torch_would_run_it(rig: Rig) -> None:
    only_kept(rig).graph()
    rig.cuda.fail = {"cuStreamGetCaptureInfo_v3": 801}
    graph = rig.graph()
    rig.cuda.fail = {}
    before = rig.gpu.now_ms
    graph.replay()
    rig.gpu.run()
    assert graph.executables == 1 and rig.gpu.now_ms - before == pytest.approx(0.3)


def test_an_older_torch_keeps_no_graphs_and_says_so(rig: Rig) -> None:
    rig.gpu.no_keeping = True
    graph = only_kept(rig).graph()
    assert not graph.kept and "a copy of a kept graph: torch 2.11.0 keeps no graphs" in rig.watch.status()


def test_a_graph_that_is_made_inside_another_capture_starts_no_trial(rig: Rig) -> None:
    rig.watch.wanted = lambda: False
    with rig.torch.cuda.graph(rig.torch.cuda.CUDAGraph()):
        rig.watch.wanted = lambda: True
        rig.torch.cuda.CUDAGraph()
        rig.gpu.kernel(5)
    assert rig.watch.status() == "no graphs yet"
