"""Graphs that cannot be copied, or whose copy fails: the engine's own works whatever happens."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any

import pytest
from toolkit_probe.driver import Driver, DriverError
from toolkit_probe.event_set import Reading, read_sets

from tests.probe.graph_rig import Rig, sets

CAPTURE = ("cuStreamGetCaptureInfo_v3", "cuGraphGetRootNodes", "cuGraphClone", "cuGraphNodeFindInClone")
CAPTURE += ("cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphNodeGetDependentNodes_v2")
VIEW = ("cuEventCreate", "cuGraphAddEventRecordNode", "cuGraphAddDependencies_v2")
VIEW += ("cuGraphRemoveDependencies_v2", "cuGraphInstantiateWithFlags")
NEVER = [*CAPTURE, *VIEW, "cuGraphLaunch"]
COST = "which cost about 1.6 us each"


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig with external events in its torch."""
    return Rig(monkeypatch)


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig that may add events to the engine's own graphs."""
    return Rig(monkeypatch, add_nodes=True)


def test_a_graph_that_brings_its_generator_is_left_alone(rig: Rig) -> None:
    graph = rig.torch.cuda.CUDAGraph()
    rig.watch.wrap_generator(lambda graph, state: None)(graph, "state")
    with rig.torch.cuda.graph(graph):
        rig.gpu.kernel(10)
    assert "replay" not in vars(graph)
    assert rig.watch.status().startswith("unavailable: replay: the engine brings a generator")


def test_a_graph_that_the_engine_keeps_to_change_it_is_left_alone(rig: Rig) -> None:
    graph = rig.torch.cuda.CUDAGraph(keep_graph=True)
    with rig.torch.cuda.graph(graph):
        rig.gpu.kernel(20)
    assert "replay" not in vars(graph) and graph.executables == 0, "the engine makes it executable itself"


def test_a_kind_of_node_that_is_not_known_to_copy_leaves_the_graph_as_it_is(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.graph()
    monkeypatch.setattr(Driver, "kinds", lambda self, graph: {0, 13})
    graph = rig.graph()
    assert "replay" not in vars(graph) and len(graph.work) == 3
    assert rig.watch.status() == "ok, 1 graphs without events: last node: nodes of type 13 are not copied"


@pytest.mark.parametrize("name", CAPTURE)
def test_a_call_that_fails_for_one_graph_leaves_that_graph_as_it_is(rig: Rig, name: str) -> None:
    rig.graph()
    for copy in rig.copies():
        del rig.cuda.graphs[copy.at]
    rig.cuda.fail = {name: 801}
    graph = rig.torch.cuda.CUDAGraph()
    with rig.torch.cuda.graph(graph):
        rig.gpu.kernel(20)
        with contextlib.suppress(AttributeError, DriverError):  # as the hook around a forward does
            rig.watch.recorder.marks._mark()
        rig.gpu.kernel(30)
    rig.cuda.fail = {}
    before = rig.gpu.now_ms
    rig.cycle(graph)
    assert rig.gpu.now_ms - before == pytest.approx(0.05) and len(graph.work) == 2
    assert name in rig.watch.status() and rig.watch.status().startswith("ok, 1 graphs without events: ")
    assert not rig.copies(), "what was copied is given back"
    rig.graph()
    assert rig.watch.graphs == 2, "the next graph is tried again"


@pytest.mark.parametrize("name", NEVER)
def test_where_copies_do_not_work_nothing_is_added_unless_it_is_asked_for(rig: Rig, name: str) -> None:
    rig.cuda.fail = {name: 801}
    graph = rig.graph()
    assert len(graph.work) == 3 and "replay" not in vars(graph) and not graph.kept
    status = rig.watch.status()
    assert status.startswith("off: copies of graphs do not work here (")
    assert name.removeprefix("cu") in status, "the launch goes through the runtime"
    assert status.endswith("; TOOLKIT_PROBE=steps adds event nodes to the engine's graphs, " + COST)


@pytest.mark.parametrize("name", NEVER)
def test_where_copies_do_not_work_events_are_put_into_the_engines_graphs_if_asked_for(
    allowed: Rig, name: str
) -> None:
    allowed.cuda.fail = {name: 801}
    graph = allowed.graph()
    assert "event nodes always on" in allowed.watch.status() and allowed.watch.status().startswith("ok, ")
    assert len(graph.work) == 7, "first, last, and the forward's two"
    reading = read_sets(sets(allowed.cycle(graph)))
    assert isinstance(reading, Reading) and reading.graph_us == pytest.approx(300)


def test_copies_are_preferred_also_where_events_may_be_added(allowed: Rig) -> None:
    assert len(allowed.graph().work) == 3 and allowed.watch.status() == "ok"


def test_a_diagnosis_has_the_arguments_of_the_call_that_failed(rig: Rig) -> None:
    rig.cuda.fail = {"cuGraphGetRootNodes": 1}
    rig.graph()
    assert re.search(r"cuGraphGetRootNodes\(0x[0-9a-f]+, NULL, &0\) gave 1", rig.watch.status())


def test_a_view_that_cannot_be_made_leaves_the_others(rig: Rig) -> None:
    graph = rig.graph()
    rig.cuda.fail = {"cuGraphRemoveDependencies_v2": 2}  # the whole needs none to be moved
    rig.ready(graph)
    assert len(rig.cuda.executables) == 1 and not rig.copies()
    assert rig.watch.status() == "ok, 1 graphs without events: inside: cuGraphRemoveDependencies_v2 gave 2"
    for turn in range(2):
        cycle = rig.cycle(graph, turn=turn)
        reading = read_sets(sets(cycle))
        assert isinstance(reading, Reading) and reading.whole
        cycle.settled = True


@pytest.mark.parametrize("name", [name for name in VIEW if name != "cuGraphRemoveDependencies_v2"])
def test_a_copy_that_cannot_be_made_executable_is_never_launched(rig: Rig, name: str) -> None:
    graph = rig.graph()
    rig.cuda.fail = {name: 2}
    rig.ready(graph)
    rig.cuda.fail = {}
    before = rig.gpu.replays
    cycle = rig.cycle(graph)
    assert rig.gpu.replays == before + 1 and sets(cycle) == [None] and not cycle.owed
    assert rig.watch.status() == f"ok, 1 graphs without events: {name} gave 2"
    assert not rig.copies() and not rig.cuda.executables


def test_a_launch_that_fails_is_made_up_for_by_torch_and_leaves_no_error_behind(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    rig.runtime.code = 700
    before = rig.gpu.replays
    cycle = rig.cycle(graph)
    assert rig.gpu.replays == before + 1 and sets(cycle) == [None]
    assert rig.runtime.last == 0, "torch would take the runtime's last error for the engine's"
    rig.runtime.code = 0
    rig.cycle(graph)
    assert rig.gpu.replays == before + 2, "it is not tried again"
    rig.watch.work()
    assert rig.watch.status() == "ok, 1 graphs without events: cudaGraphLaunch gave 700"


def test_the_engines_own_error_in_a_replay_passes_through_once(rig: Rig) -> None:
    graph = rig.graph()

    def fail(self: Any) -> None:
        rig.gpu.replays += 1
        raise ZeroDivisionError("the engine's own")

    rig.torch.cuda.graphs.CUDAGraph.replay = fail
    before = rig.gpu.replays
    with pytest.raises(ZeroDivisionError):
        rig.cycle(graph)
    assert rig.gpu.replays == before + 1


def test_a_graph_that_is_reset_is_never_launched_again_and_gives_its_copy_back(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    cycle = rig.cycle(graph)
    graph.reset()
    rig.watch.work()
    assert not rig.cuda.executables and not {"replay", "reset"} & set(vars(graph))
    launches = rig.runtime.launches
    rig.cycle(graph)
    assert rig.runtime.launches == launches
    assert isinstance(read_sets(sets(cycle)), Reading), "what ran can still be read"


def test_torch_without_external_events_and_no_driver_leaves_graphs_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch, external=False, add_nodes=True)
    rig.cuda.fail = {"cuGraphClone": 801}
    graph = rig.graph()
    assert rig.watch.status() == "unavailable: torch 2.11.0 has no external events"
    assert "replay" not in vars(graph) and len(graph.work) == 3


def test_a_driver_that_refuses_all_leaves_graphs_unchanged(allowed: Rig) -> None:
    allowed.gpu.refuse_external = True
    allowed.cuda.fail = {"cuGraphClone": 801}
    graph = allowed.graph()
    assert allowed.watch.status().startswith("unavailable: an event cannot be captured")
    assert "replay" not in vars(graph) and len(graph.work) == 3


def test_a_driver_that_lacks_a_function_is_found_out(allowed: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed.cuda.cuGraphAddDependencies_v2 = None
    allowed.graph()
    said = "ok, event nodes always on: the driver has no cuGraphAddDependencies_v2"
    assert allowed.watch.status() == said


def test_a_capture_that_fails_is_the_engines_to_see(rig: Rig) -> None:
    torch = sys.modules["torch"]
    with pytest.raises(AssertionError, match="one capture at a time"), torch.cuda.graph(rig.graph()):
        torch.cuda.CUDAGraph().capture_begin()
    assert rig.watch.capturing == 0
