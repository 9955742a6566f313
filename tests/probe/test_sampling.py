"""How often a sampled cycle is read while the next replay of its graph is in flight most of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toolkit_probe import writer as writers
from toolkit_probe.clock import CudaStamps
from toolkit_probe.event_set import AGAIN, TOO_LONG
from toolkit_probe.graph_exec import HELD, MAKING
from toolkit_probe.graph_nodes import CAPTURED
from toolkit_probe.in_graph import InGraph
from toolkit_probe.recorder import Recorder
from toolkit_probe.recording import Cycle, Recording
from toolkit_probe.spans_file import SpansFile
from toolkit_probe.writer import Writer

from tests.probe.graph_rig import Rig
from toolkit.ingest.spans import read_spans


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer write each cycle as soon as it can."""
    monkeypatch.setattr(writers, "_BACKLOG", 0)


def recording(steps_every: int) -> Recording:
    return Recording(cycles=None, seconds=None, steps_every=steps_every, max_cycles=1000, steps=True)


def run_ahead(rig: Rig, folder: Path, cycles: int, every: int, spare_us: float) -> tuple[Recording, Any]:
    """Run cycles of one graph of 300 us; the writer looks only while the next cycle's graph is in flight."""
    recorder, taken = rig.watch.recorder, recording(every)
    writer = Writer(taken, SpansFile(str(folder), 0), rig.watch)
    graph = rig.graph(forwards=False)
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


class Always(Rig):
    """An engine whose own graph holds the events, with the kernels of a verify of 300 us."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, every: int) -> None:
        super().__init__(patch, add_nodes=True)
        self.cuda.fail = {"cuGraphClone": 1}
        self.verify = self.graph()
        assert len(self.verify.work) == 7
        self.taken, self.recorder = recording(every), self.watch.recorder
        self.writer = Writer(self.taken, SpansFile(str(folder), 0), self.watch)
        self.recorder.start(self.taken)

    def one(self) -> None:
        """Queue one cycle."""
        assert self.recorder.begin_cycle() is not None
        stage = self.recorder.begin_stage("verify")
        assert stage is not None
        self.gpu.kernel(100)
        self.verify.replay()
        self.recorder.end_stage(stage)
        self.recorder.end_cycle()

    def spans(self) -> Any:
        self.gpu.run()
        self.recorder.stop()
        self.writer._look()
        self.writer._close()
        return read_spans(Path(self.writer.spans.path))


def read_of(spans: Any) -> list[Any]:
    return [cycle for cycle in spans.cycles if cycle.graph_us]


def test_events_that_are_always_on_are_read_on_every_sample_of_a_host_that_waits_for_the_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rig = Always(monkeypatch, tmp_path, every=5)
    for _ in range(100):
        rig.one()
        rig.gpu.run()  # the writer has no time to look
    read = read_of(rig.spans())
    assert [cycle.cycle for cycle in read] == list(range(0, 100, 5)) and not rig.taken.unread_why
    assert [cycle.graph_us["verify"] for cycle in read] == pytest.approx([300] * 20)


def test_events_of_a_graph_that_is_launched_before_its_last_replay_is_done_are_never_passed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What SGLang's overlap schedule does on an H200: verify is launched again while it runs."""
    rig = Always(monkeypatch, tmp_path, every=5)
    for _ in range(100):
        rig.one()
        rig.gpu.run(len(rig.gpu.queue) - 3)  # all but the last event and what comes behind it
        rig.writer._look()
    assert not read_of(rig.spans())
    assert rig.taken.unread_why == {f"verify: {AGAIN}": 20} and rig.taken.unread == 20


def test_a_reading_in_the_engines_thread_is_of_its_own_cycle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rig = Always(monkeypatch, tmp_path, every=3)
    slower, original = iter(range(1, 10_000)), rig.gpu._advance
    monkeypatch.setattr(rig.gpu, "_advance", lambda us: original(us + next(slower)))
    for number in range(30):
        rig.one()
        rig.gpu.run()
        if number % 2:
            rig.writer._look()
    read = read_of(rig.spans())
    assert len(read) == 10
    for cycle in read:  # four kernels a cycle, each slower by 1 us than the one before
        assert cycle.stage_us["verify"] - cycle.graph_us["verify"] == pytest.approx(101 + 4 * cycle.cycle)


def test_a_replay_while_asleep_is_not_taken_for_the_last_cycles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rig = Always(monkeypatch, tmp_path, every=1)
    rig.one()
    rig.recorder.stop()
    rig.verify.replay()
    assert not read_of(rig.spans()) and rig.taken.unread_why == {f"verify: {AGAIN}": 1}


def test_nothing_is_asked_in_the_engines_thread_while_a_graph_is_captured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rig = Always(monkeypatch, tmp_path, every=1)
    rig.one()
    rig.gpu.run()
    rig.watch.wanted = lambda: False
    with rig.torch.cuda.graph(rig.torch.cuda.CUDAGraph()):
        rig.verify.replay()  # a question would raise in the fake event
    assert not read_of(rig.spans()) and rig.taken.unread_why == {f"verify: {CAPTURED}": 1}


def test_a_graph_that_takes_longer_than_its_call_is_refused_and_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rig = Always(monkeypatch, tmp_path, every=1)
    monkeypatch.setattr(CudaStamps, "span_us", lambda self, start, end: 100.0)
    rig.one()
    assert not read_of(rig.spans()) and rig.taken.unread_why == {f"verify: {TOO_LONG}": 1}


def test_phases_without_events_are_counted_by_why_and_are_no_failed_readings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken, _ = run_ahead(Rig(monkeypatch), tmp_path, 20, 1, 100)
    assert taken.unread_why == {f"verify: {MAKING}": 1, f"verify: {HELD}": 9} and taken.unread == 0


def test_only_so_many_reasons_are_told_apart() -> None:
    taken = recording(5)
    for number in range(100):
        taken.note_unread("verify", f"asking failed: {number}")
    assert len(taken.unread_why) == 41 and taken.unread_why["other"] == 60


def test_a_writer_looks_seldom_except_at_events_that_every_replay_records_again(tmp_path: Path) -> None:
    in_graph = InGraph(Recorder(), steps=True)
    writer = Writer(recording(5), SpansFile(str(tmp_path), 0), in_graph)
    assert writer._pace_s() >= 0.02
    writer._sampled.append(Cycle(0, None, sampled=True))
    assert writer._pace_s() >= 0.02
    in_graph.always_on = "graphs cannot be copied"
    assert 0.02 > writer._pace_s() >= 0.001
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
