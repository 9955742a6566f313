"""Graphs with events: which executable runs when, and that the engine's graph works whatever fails."""

from __future__ import annotations

import contextlib
import re
import sys
import weakref
from typing import Any

import pytest
from toolkit_probe import graph_exec, trial
from toolkit_probe.driver import Driver, DriverError
from toolkit_probe.event_set import Reading, read_sets, unreadable
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


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig with external events in its torch."""
    return Rig(monkeypatch)


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig that may add events to the engine's own graphs."""
    return Rig(monkeypatch, add_nodes=True)


def sets(cycle: Cycle) -> list[Any]:
    """Return the events of each graph that ran; None for one that ran without."""
    return [None if isinstance(events, str) else events for _, events in cycle.graphs]


def readable(found: list[Any]) -> bool:
    return None not in found and unreadable(found) is None


def test_the_engines_graph_holds_no_node_of_ours(rig: Rig) -> None:
    graph = rig.graph()
    assert len(graph.work) == 3 and rig.watch.status() == "ok"
    assert rig.watch.capturing == 0 and rig.gpu.waits == 0


def test_asleep_nothing_takes_memory_on_the_device(rig: Rig) -> None:
    graph = rig.graph()
    launches = rig.runtime.launches  # the trial's
    graph.replay()
    rig.watch.work()
    assert not rig.cuda.executables and rig.runtime.launches == launches


def test_a_sampled_cycle_runs_the_copy_and_the_others_run_the_engines_graph(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    torchs, ours = rig.gpu.replays, rig.runtime.launches
    before = rig.gpu.now_ms
    cycle = rig.cycle(graph)
    assert rig.gpu.now_ms - before == pytest.approx(0.3), "the same work was done"
    assert (rig.gpu.replays - torchs, rig.runtime.launches - ours) == (0, 1)
    assert cycle.graph == {"draft": True} and not cycle.owed
    reading = read_sets(sets(cycle))
    assert isinstance(reading, Reading) and reading.whole and reading.graph_us == pytest.approx(300)
    rig.cycle(graph, sampled=False)
    graph.replay()
    assert (rig.gpu.replays - torchs, rig.runtime.launches - ours) == (2, 1)


def test_sampled_cycles_look_in_turn_at_the_whole_at_forwards_and_at_collectives(rig: Rig) -> None:
    graph = rig.torch.cuda.CUDAGraph()
    with rig.torch.cuda.graph(graph):
        marks = rig.watch.recorder.marks
        for us in (240, 260):
            marks.begin()
            rig.gpu.kernel(us)
            for _ in range(2):  # a collective that calls another is one
                marks.begin_collective()
            rig.gpu.kernel(7)
            for _ in range(2):
                marks.end_collective()
            marks.begin_collective()  # a group of one puts nothing into the graph
            marks.end_collective()
            marks.end()
    rig.ready(graph)
    whole, forwards, collectives = (read_sets(sets(rig.cycle(graph, turn=turn))) for turn in range(3))
    assert isinstance(whole, Reading) and whole.whole and not whole.steps_us and not whole.collectives_us
    assert whole.graph_us == pytest.approx(514)
    assert isinstance(forwards, Reading) and not forwards.whole
    assert forwards.steps_us == pytest.approx((247, 267)) and not forwards.collectives_us
    assert isinstance(collectives, Reading) and not collectives.whole
    assert collectives.collectives_us == pytest.approx((7, 7)) and not collectives.steps_us


def test_the_first_sampled_cycle_runs_the_engines_graph_and_the_next_one_is_sampled_instead(rig: Rig) -> None:
    graph = rig.graph()
    launches = rig.runtime.launches
    cycle = rig.cycle(graph)
    assert cycle.owed and not readable(sets(cycle)) and rig.runtime.launches == launches


def test_events_are_not_recorded_again_before_they_are_read(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    first = rig.cycle(graph)
    held = rig.cycle(graph)
    assert not held.owed and sets(held) == [None]
    first.settled = True
    assert readable(sets(rig.cycle(graph)))


def test_a_reading_that_never_comes_holds_the_events_for_a_while_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = rig.ready(rig.graph())
    rig.cycle(graph)
    monkeypatch.setattr(graph_exec, "_HELD_NS", -1)
    assert readable(sets(rig.cycle(graph)))


def test_a_graph_that_runs_twice_in_a_phase_is_not_read(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    assert not readable(sets(rig.cycle(graph, times=2)))


def test_a_graph_that_draws_random_numbers_is_always_run_by_torch(rig: Rig) -> None:
    graph = rig.ready(rig.graph(draws=4))
    before = rig.gpu.offset
    cycle = rig.cycle(graph)
    assert rig.gpu.offset == before + 4 and sets(cycle) == [None] and not cycle.owed
    assert not rig.cuda.executables and not rig.copies()
    assert rig.watch.status() == "ok, 1 graphs without events: it draws random numbers"


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


CAPTURE = ("cuStreamGetCaptureInfo_v3", "cuGraphGetRootNodes", "cuGraphClone", "cuGraphNodeFindInClone")
CAPTURE += ("cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphNodeGetDependentNodes_v2")
VIEW = ("cuEventCreate", "cuGraphAddEventRecordNode", "cuGraphAddDependencies_v2")
VIEW += ("cuGraphRemoveDependencies_v2", "cuGraphInstantiateWithFlags")


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


NEVER = [*CAPTURE, *VIEW, "cuGraphLaunch"]


@pytest.mark.parametrize("name", NEVER)
def test_where_copies_do_not_work_nothing_is_added_unless_it_is_asked_for(rig: Rig, name: str) -> None:
    rig.cuda.fail = {name: 801}
    graph = rig.graph()
    assert len(graph.work) == 3 and "replay" not in vars(graph) and not graph.kept
    status = rig.watch.status()
    assert status.startswith("off: copies of graphs do not work here (")
    assert name.removeprefix("cu") in status, "the launch goes through the runtime"
    assert status.endswith("; TOOLKIT_PROBE=steps adds event nodes to the engine's graphs, " + COST)


COST = "which cost about 1.6 us each"


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


def test_the_graph_of_a_capture_that_has_just_begun_has_no_nodes_to_list(rig: Rig) -> None:
    driver = Driver(rig.cuda)
    empty = Graph()
    rig.cuda.graphs[empty.at] = empty
    assert driver.roots(empty.at) == [] and driver.kinds(empty.at) == set()


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


def test_another_device_runs_the_engines_graph(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    rig.torch.cuda.current_device = lambda: 0
    assert sets(rig.cycle(graph)) == [None]


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


def test_a_graph_is_freed_with_its_last_reference_and_its_copy_is_given_back(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    gone = weakref.ref(graph)
    del graph
    assert gone() is None and rig.cuda.executables
    rig.watch.work()
    assert not rig.cuda.executables


def test_nothing_is_given_back_or_made_while_a_graph_is_captured(rig: Rig) -> None:
    graph = rig.graph()
    rig.cycle(graph)
    said = len(rig.cuda.said)
    rig.watch.capturing = 1
    rig.watch.work()
    assert len(rig.cuda.said) == said
    rig.watch.capturing = 0
    rig.watch.work()
    assert len(rig.cuda.executables) == 2, "of the whole and of the forward"


def test_two_boundaries_at_one_place_are_one_event(rig: Rig) -> None:
    graph = rig.torch.cuda.CUDAGraph()
    with rig.torch.cuda.graph(graph):
        marks = rig.watch.recorder.marks
        for us in (240, 260):
            marks.begin()
            rig.gpu.kernel(us)
            marks.end()
    said = len(rig.cuda.said)
    reading = read_sets(sets(rig.cycle(rig.ready(graph), turn=1)))
    assert isinstance(reading, Reading) and reading.steps_us == pytest.approx((240, 260))
    made = sum(name == "cuGraphAddEventRecordNode" for name in rig.cuda.said[said:])
    assert made == 2 + 3, "of the whole: first and last; of the forwards: one between them too"


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


def test_a_graph_that_is_not_wanted_is_left_unchanged(rig: Rig) -> None:
    rig.graph()
    rig.watch.wanted = lambda: False
    assert "replay" not in vars(rig.graph()) and rig.watch.graphs == 1


def test_a_capture_that_fails_is_the_engines_to_see(rig: Rig) -> None:
    torch = sys.modules["torch"]
    with pytest.raises(AssertionError, match="one capture at a time"), torch.cuda.graph(rig.graph()):
        torch.cuda.CUDAGraph().capture_begin()
    assert rig.watch.capturing == 0
