"""Graphs with events: which executable runs when, and what its events say."""

from __future__ import annotations

import weakref

import pytest
from toolkit_probe import graph_exec
from toolkit_probe.driver import Driver
from toolkit_probe.event_set import Reading, read_sets

from tests.probe.fake_driver import Graph
from tests.probe.graph_rig import Rig, readable, sets


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig with external events in its torch."""
    return Rig(monkeypatch)


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


def test_the_graph_of_a_capture_that_has_just_begun_has_no_nodes_to_list(rig: Rig) -> None:
    driver = Driver(rig.cuda)
    empty = Graph()
    rig.cuda.graphs[empty.at] = empty
    assert driver.roots(empty.at) == [] and driver.kinds(empty.at) == set()


def test_another_device_runs_the_engines_graph(rig: Rig) -> None:
    graph = rig.ready(rig.graph())
    rig.torch.cuda.current_device = lambda: 0
    assert sets(rig.cycle(graph)) == [None]


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


def test_a_graph_that_is_not_wanted_is_left_unchanged(rig: Rig) -> None:
    rig.graph()
    rig.watch.wanted = lambda: False
    assert "replay" not in vars(rig.graph()) and rig.watch.graphs == 1
