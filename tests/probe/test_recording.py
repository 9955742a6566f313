"""Recording: bounds, drops, and what the writer does with stamps that are not passed yet."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toolkit_probe import recording as bounds
from toolkit_probe import writer as writers
from toolkit_probe.acceptance import Acceptance
from toolkit_probe.clock import CudaStamps, HostStamps, clock_of_process
from toolkit_probe.event_set import EventSet
from toolkit_probe.in_graph import InGraph
from toolkit_probe.recorder import Recorder
from toolkit_probe.recording import Cycle, Recording
from toolkit_probe.spans_file import SpansFile
from toolkit_probe.writer import Writer

from tests.probe.conftest import until
from tests.probe.fake_torch import Gpu, install
from toolkit.ingest.spans import read_spans


def recording(**changes: Any) -> Recording:
    return Recording(
        **{"cycles": None, "seconds": None, "steps_every": 20, "max_cycles": 1000, "steps": True, **changes}
    )


class Rig:
    """A recorder, its writer and file; `cycle` runs one cycle of a verify of 1 ms."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.recorder, self.recording = Recorder(), recording(**changes)
        self.in_graph = InGraph(self.recorder, steps=True)
        self.file = SpansFile(str(folder), 0)
        self.writer = Writer(self.recording, self.file, self.in_graph)
        self.recorder.start(self.recording)

    def cycle(self, work: Any = None) -> Cycle | None:
        cycle = self.recorder.begin_cycle()
        if cycle is not None:
            stage = self.recorder.begin_stage("verify")
            if work:
                work()
            assert stage is not None
            self.recorder.end_stage(stage)
            self.recorder.end_cycle()
        return cycle

    def spans(self) -> Any:
        self.recorder.stop()
        self.writer.finish(2.0)
        return read_spans(Path(self.file.path))


def test_more_cycles_than_the_queue_holds_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "WAITING", 10)
    rig = Rig(tmp_path)
    for _ in range(25):
        rig.cycle()
    assert len(rig.recording.finished) == 10 and rig.recording.dropped == 15
    rig.writer.start()
    spans = rig.spans()
    assert (len(spans.cycles), spans.dropped) == (10, 15)


def test_a_dropped_cycle_leaves_a_gap_in_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WAITING", 2)
    rig = Rig(tmp_path)
    for _ in range(3):
        rig.cycle()
    rig.recording.finished.popleft()
    rig.cycle()
    assert [cycle.number for cycle in rig.recording.finished] == [1, 3]
    rig.file.close(0)


def test_a_file_holds_no_more_than_its_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, max_cycles=5)
    rig.writer.start()
    for _ in range(8):
        rig.cycle()
    spans = rig.spans()
    assert (len(spans.cycles), spans.dropped) == (5, 3)


def test_the_asked_number_of_cycles_ends_the_recording(tmp_path: Path) -> None:
    rig = Rig(tmp_path, cycles=3)
    rig.writer.start()
    for _ in range(8):
        rig.cycle()
    assert not rig.recorder.awake
    rig.writer.join(5)
    assert not rig.writer.is_alive() and len(read_spans(Path(rig.file.path)).cycles) == 3
    assert rig.recording.dropped == 0


def test_the_asked_time_ends_the_recording_of_an_idle_server(tmp_path: Path) -> None:
    rig = Rig(tmp_path, seconds=0.01)
    rig.recording._ends_ns = time.monotonic_ns() - 2_000_000_000
    rig.writer.start()
    rig.writer.join(5)
    assert not rig.writer.is_alive()


def test_a_cycle_that_the_engine_left_open_is_dropped(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.recorder.begin_cycle()
    rig.cycle()
    rig.writer.start()
    spans = rig.spans()
    assert ([cycle.cycle for cycle in spans.cycles], spans.dropped) == ([1], 1)


def test_a_phase_inside_a_phase_is_no_phase_of_its_own() -> None:
    recorder = Recorder()
    recorder.start(recording())
    recorder.begin_cycle()
    assert recorder.begin_stage("verify") is not None
    assert recorder.begin_stage("decode") is None


def test_asleep_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    install(monkeypatch, gpu)
    recorder = Recorder()
    assert recorder.begin_cycle() is None and recorder.begin_stage("draft") is None
    recorder.other_work()
    recorder.end_cycle()
    assert gpu.records == 0 and not recorder.awake


def test_lines_are_written_when_the_recording_is_over_and_count_as_recorded_before(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.writer.start()
    for _ in range(40):
        rig.cycle()
    time.sleep(0.1)
    assert rig.writer.recorded == 0, "writing would take the engine's time"
    assert len(rig.spans().cycles) == 40


def test_a_long_backlog_is_written_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_BACKLOG", 30)
    rig = Rig(tmp_path)
    rig.writer.start()
    for _ in range(40):
        rig.cycle()
    until(lambda: rig.writer.recorded >= 10)
    time.sleep(0.1)
    assert rig.writer.recorded <= 16, "the rest waits"
    assert len(rig.spans().cycles) == 40


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer write each cycle as soon as it can."""
    monkeypatch.setattr(writers, "_BACKLOG", 0)


@pytest.mark.usefixtures("at_once")
def test_a_cycle_is_written_when_the_gpu_has_passed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu()
    torch = install(monkeypatch, gpu)
    rig = Rig(tmp_path)
    rig.writer.start()
    rig.cycle(lambda: gpu.kernel(1000))
    time.sleep(0.1)
    assert rig.writer.recorded == 0
    gpu.run()
    until(lambda: rig.writer.recorded == 1)
    spans = rig.spans()
    assert spans.cycles[0].stage_us == pytest.approx({"verify": 1000}, abs=0.01)
    assert gpu.waits == 0
    assert torch.cuda.devices == [1], "the writer's thread uses the engine's device"


@pytest.mark.usefixtures("at_once")
def test_the_driver_is_not_asked_while_a_graph_is_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu()
    torch = install(monkeypatch, gpu)
    rig = Rig(tmp_path)
    kind = torch.cuda.graphs.CUDAGraph
    kind.capture_begin = rig.in_graph.wrap_begin(kind.capture_begin)
    kind.capture_end = rig.in_graph.wrap_end(kind.capture_end)
    rig.in_graph.wanted = lambda: False
    rig.writer.start()
    rig.cycle(lambda: gpu.kernel(1000))
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        gpu.run()
        time.sleep(0.1)  # a question would raise in the fake event
        assert rig.writer.recorded == 0
    until(lambda: rig.writer.recorded == 1)
    assert len(rig.spans().cycles) == 1


@pytest.mark.usefixtures("at_once")
def test_events_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    install(monkeypatch, gpu)
    rig = Rig(tmp_path)
    rig.writer.start()
    for number in range(20):
        rig.cycle(lambda: gpu.kernel(10))
        gpu.run()
        until(lambda done=number + 1: rig.writer.recorded == done)
    clock = rig.recording.clock
    assert isinstance(clock, CudaStamps) and len(clock._pool) == 2
    rig.spans()


def test_events_are_used_again_in_the_next_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    install(monkeypatch, gpu)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    rig = Rig(tmp_path / "one")
    rig.writer.start()
    for _ in range(3):
        rig.cycle(lambda: gpu.kernel(10))
        gpu.run()
    assert [cycle.stage_us for cycle in rig.spans().cycles] == [pytest.approx({"verify": 10})] * 3
    clock = rig.recording.clock
    assert isinstance(clock, CudaStamps) and len(clock._pool) == 6
    again = Rig(tmp_path / "two")
    again.cycle(lambda: gpu.kernel(10))
    assert again.recording.clock is clock and len(clock._pool) == 4
    again.writer._close()


def test_the_stream_is_asked_for_again_only_where_its_address_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = install(monkeypatch, Gpu())
    asked: list[int] = []
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 7 + len(asked) // 2)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: asked.append(1) or f"stream {len(asked)}")
    clock = CudaStamps(torch)
    assert [clock.place(), clock.place()] == ["stream 1", "stream 1"]
    asked.append(0)  # now another address
    assert clock.place() == "stream 3"


def test_ranks_that_begin_with_one_cycle_look_at_the_same_thing_in_the_same_cycle() -> None:
    looked = []
    for owes in (0, 2):  # one rank's copies are ready two cycles later
        taken, found = recording(steps_every=5), {}
        for number in range(40):
            cycle = taken.begin_cycle()
            assert cycle is not None
            if cycle.sampled:
                found[number] = cycle.turn
                cycle.owed = number < owes
            taken.end_cycle(cycle)
        looked.append({number: turn for number, turn in found.items() if number % 5 == 0})
    assert looked[0] == looked[1] == {number: number // 5 for number in range(0, 40, 5)}


def test_no_cycle_is_recorded_before_all_ranks_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic_ns()
    monkeypatch.setattr(bounds.time, "monotonic_ns", lambda: now)
    taken = recording(not_before_ns=now + 1000)
    assert taken.begin_cycle() is None
    now += 1000
    first = taken.begin_cycle()
    assert first is not None and first.sampled and first.number == 1
    assert taken.dropped == 0


def test_a_start_on_another_clock_is_not_waited_for() -> None:
    assert recording(not_before_ns=time.monotonic_ns() + 10**12).begin_cycle() is not None


def test_counts_that_come_a_cycle_later_join_their_own_cycle(tmp_path: Path) -> None:
    rig, acceptance = Rig(tmp_path), Acceptance()
    results = [object() for _ in range(4)]
    rig.writer.start()
    for number, result in enumerate(results):
        cycle = rig.recorder.begin_cycle()
        assert cycle is not None
        acceptance.expect(result, cycle)
        rig.recorder.end_cycle()
        if number:
            acceptance.arrived(results[number - 1], [number - 1])
    assert acceptance.awake
    acceptance.arrived(results[3], [3])
    assert not acceptance.awake
    assert [cycle.correct_drafts for cycle in rig.spans().cycles] == [(0,), (1,), (2,), (3,)]


@pytest.mark.usefixtures("at_once")
def test_counts_that_never_come_are_null_and_hold_nothing_up(tmp_path: Path) -> None:
    rig, acceptance = Rig(tmp_path), Acceptance()
    lost = object()
    cycle = rig.recorder.begin_cycle()
    assert cycle is not None
    acceptance.expect(lost, cycle)
    rig.recorder.end_cycle()
    rig.writer.start()
    for _ in range(30):
        rig.cycle()
    until(lambda: rig.writer.recorded > 0, seconds=2)
    assert rig.spans().cycles[0].correct_drafts is None


def test_counts_of_an_unknown_result_are_left_alone() -> None:
    acceptance = Acceptance()
    acceptance.arrived(object(), [1])
    assert not acceptance.awake


def test_only_so_many_results_are_waited_for() -> None:
    acceptance, cycles = Acceptance(), [Cycle(n, None, False) for n in range(300)]
    results = [object() for _ in cycles]
    for result, cycle in zip(results, cycles, strict=True):
        acceptance.expect(result, cycle)
    assert sum(cycle.awaits for cycle in cycles) == 256 and not cycles[0].awaits


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "spans-TP-0.jsonl").write_text("kept")
    with pytest.raises(FileExistsError):
        SpansFile(str(tmp_path), 0)
    assert (tmp_path / "spans-TP-0.jsonl").read_text() == "kept"


def test_the_file_is_the_users_alone(tmp_path: Path) -> None:
    spans = SpansFile(str(tmp_path), 2)
    spans.close(123_456_789)
    assert Path(spans.path).stat().st_mode & 0o777 == 0o600
    assert read_spans(Path(spans.path)).dropped == 123_456_789


def test_an_engine_without_a_gpu_is_timed_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    clock = clock_of_process()
    assert isinstance(clock, HostStamps)
    assert clock.span_us(1_000, 3_500) == 2.5


@pytest.mark.usefixtures("at_once")
def test_a_driver_that_gives_errors_costs_a_reading_and_not_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def query(self) -> bool:
            raise RuntimeError("cuEventQuery gave 400")

    gpu = Gpu()
    install(monkeypatch, gpu)
    monkeypatch.setattr(writers, "_READ_FOR_NS", 1)
    rig, events = Rig(tmp_path, steps_every=1), EventSet(None)
    events.first = events.last = Broken()
    rig.writer.start()
    for _ in range(3):
        cycle = rig.cycle()
        assert cycle is not None
        cycle.graphs.append(("verify", events))
        events.cycle = cycle
        gpu.run()
        until(lambda cycle=cycle: cycle.settled)
    until(lambda: rig.writer.recorded == 3)
    assert rig.recording.unread_why == {"verify: asking failed: cuEventQuery gave 400": 3}
    assert [cycle.graph_us for cycle in rig.spans().cycles] == [None] * 3 and rig.recording.unread == 3
