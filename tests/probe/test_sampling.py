"""How often a sampled cycle is read while the next replay of its graph is in flight most of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toolkit_probe import writer as writers
from toolkit_probe.clock import CudaStamps
from toolkit_probe.event_set import EventSet
from toolkit_probe.in_graph import InGraph
from toolkit_probe.recorder import Recorder
from toolkit_probe.recording import Cycle, Recording
from toolkit_probe.spans_file import SpansFile
from toolkit_probe.writer import Writer

from tests.probe.test_in_graph import Rig
from toolkit.ingest.spans import read_spans

PERIOD_US = 7000


def recording(steps_every: int) -> Recording:
    return Recording(cycles=None, seconds=None, steps_every=steps_every, max_cycles=1000, steps=True)


def run_ahead(rig: Rig, folder: Path, cycles: int, every: int, spare_us: float) -> tuple[Recording, Any]:
    """Run cycles of one graph of 300 us; the writer looks only while the next cycle's graph is in flight."""
    recorder, taken = rig.watch.recorder, recording(every)
    writer = Writer(taken, SpansFile(str(folder), 0), rig.watch)
    graph = rig.graph()
    recorder.start(taken)
    for _ in range(cycles):
        assert recorder.begin_cycle() is not None
        stage = recorder.begin_stage("verify")
        assert stage is not None
        rig.gpu.kernel(spare_us)
        graph.replay()
        recorder.end_stage(stage)
        recorder.end_cycle()
        rig.gpu.run(len(rig.gpu.queue) - 3)  # all but this cycle's last kernels
        writer._look()
    rig.gpu.run()
    recorder.stop()
    writer._look()
    writer._close()
    return taken, read_spans(Path(writer.spans.path))


@pytest.mark.parametrize("spare_us", [100, 33], ids=["in flight 75 %", "in flight 90 %"])
@pytest.mark.parametrize("every", [1, 5, 20])
def test_a_copy_is_read_on_every_sample_however_long_the_graph_is_in_flight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spare_us: float, every: int
) -> None:
    taken, spans = run_ahead(Rig(monkeypatch), tmp_path, 200, every, spare_us)
    read = [cycle.graph_us["verify"] for cycle in spans.cycles if cycle.graph_us]
    assert read == pytest.approx([300] * len(read), abs=0.01)
    # The first sample asks for the copy. Sampling every cycle, every second one finds the events still held.
    assert len(read) >= {1: 99, 5: 39, 20: 9}[every] and taken.unread == 0


def test_the_reading_is_of_its_own_cycle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rig = Rig(monkeypatch)
    slower = iter(range(1, 1000))
    original = rig.gpu._advance
    monkeypatch.setattr(rig.gpu, "_advance", lambda us: original(us + next(slower)))
    _, spans = run_ahead(rig, tmp_path, 60, 2, 100)
    read = [cycle for cycle in spans.cycles if cycle.graph_us]
    assert len(read) > 20
    for cycle in read:
        outside = cycle.stage_us["verify"] - cycle.graph_us["verify"]
        assert 100 < outside < 100 + 4 * 60 + 4, "what is left is the kernel before the graph"


class Now:
    """A clock that the test turns, in us."""

    us = 0.0


class InFlight:
    """An event of a graph that is replayed every period; nothing can be asked while a replay is in flight."""

    def __init__(self, now: Now, at_us: float, graph_us: float) -> None:
        self.now, self.at_us, self.graph_us = now, at_us, graph_us

    def query(self) -> bool:
        return self.now.us % PERIOD_US >= self.graph_us

    def elapsed_time(self, end: InFlight) -> float:
        return (end.at_us - self.at_us) / 1000


class Clock:
    """Stamps are times of the test's clock."""

    def __init__(self, now: Now) -> None:
        self.now = now

    def done(self, stamp: float) -> bool:
        return self.now.us >= stamp

    def span_us(self, start: float, end: float) -> float:
        return end - start


def always_on(graph_us: float, events_us: tuple[float, ...], now: Now, looks_us: float, folder: Path) -> int:
    """Sample every 5th of 100 cycles whose graph holds its events always; return how many were read."""
    in_graph, taken = InGraph(Recorder(), steps=True), recording(5)
    in_graph.always_on = "the driver"
    taken.clock = Clock(now)  # type: ignore[assignment]
    writer = Writer(taken, SpansFile(str(folder), 0), in_graph)
    events = EventSet(None)
    first, *inner, events.last = (InFlight(now, at, graph_us) for at in events_us)
    events.first = first
    events.forwards = [(inner[0], inner[1])]
    cycles = []
    for number in range(100):
        if number % 5 == 0:
            cycle = Cycle(number, None, sampled=True)
            start = number * PERIOD_US
            cycle.graphs = [("verify", events)]
            cycle.stages = [("verify", start, start + graph_us + 20)]
            cycle.finished_ns = int(start * 1000) + 1
            taken.sampling.append(cycle)
            cycles.append(cycle)
        while now.us < (number + 1) * PERIOD_US:
            writer._read_graphs()
            now.us += looks_us
    writer._close()
    return sum(bool(cycle.readings) for cycle in cycles)


@pytest.mark.parametrize("share", [0.75, 0.9])
def test_events_that_are_always_on_are_caught_between_two_replays_on_most_samples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float
) -> None:
    now, graph_us = Now(), PERIOD_US * share
    monkeypatch.setattr(writers.time, "monotonic_ns", lambda: int(now.us * 1000))
    pace_us = writers._CATCHING_S * 1e6 + 60  # and what a look and the interpreter's lock take
    read = always_on(graph_us, (0, 10, 260, graph_us), now, pace_us, tmp_path)
    assert read >= 18, "of 20"


def test_a_mix_of_replays_is_never_believed_however_often_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now, graph_us = Now(), PERIOD_US * 0.75
    monkeypatch.setattr(writers.time, "monotonic_ns", lambda: int(now.us * 1000))
    mixed = (7000, 7010, 260, graph_us)  # the later replay has passed the first two
    assert always_on(graph_us, mixed, now, 360, tmp_path) == 0


def test_only_events_that_are_overwritten_are_asked_for_at_a_fast_pace(tmp_path: Path) -> None:
    in_graph = InGraph(Recorder(), steps=True)
    writer = Writer(recording(5), SpansFile(str(tmp_path), 0), in_graph)
    idle = writer._pace_s()
    writer._sampled.append(Cycle(0, None, sampled=True))
    copies = writer._pace_s()
    in_graph.always_on = "the driver"
    assert idle >= 0.02 > copies >= 0.001 > writer._pace_s()
    writer._close()


def test_a_cycle_that_waits_for_a_copy_is_made_up_for_a_bounded_number_of_times() -> None:
    taken = recording(20)
    taken.clock = CudaStamps.__new__(CudaStamps)
    taken.clock.place = lambda: None  # type: ignore[method-assign]
    sampled = 0
    for _ in range(600):
        cycle = taken.begin_cycle()
        assert cycle is not None
        sampled += cycle.sampled
        cycle.owed = cycle.sampled
        taken.end_cycle(cycle)
    assert 256 <= sampled <= 256 + 30
