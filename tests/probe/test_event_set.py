"""Events inside graphs: which readings are believed."""

from __future__ import annotations

import pytest
from toolkit_probe.event_set import (
    CHANGED,
    NO_TIME,
    NOT_PASSED,
    OUT_OF_ORDER,
    TWICE,
    EventSet,
    Reading,
    fits_stage,
    read_sets,
    unreadable,
)


class Stamped:
    """An event with a time in ms; None while it is not passed."""

    def __init__(self, *times: float | None) -> None:
        self.times = list(times)

    def query(self) -> bool:
        return self.times[0] is not None

    def elapsed_time(self, end: Stamped) -> float:
        start_ms, end_ms = self.times[0], end.times[0]
        assert start_ms is not None and end_ms is not None
        return end_ms - start_ms


class Replayed(Stamped):
    """An event whose next replay passes while it is being asked: each answer is later than the one before."""

    def elapsed_time(self, end: Stamped) -> float:
        found = super().elapsed_time(end)
        end.times[0] = (end.times[0] or 0) + 0.001
        return found


def events(*times: float | None, forwards: int = 0, kind: type[Stamped] = Stamped) -> EventSet:
    made = EventSet(None)
    made.first, *inner, made.last = (kind(time) for time in times)
    made.pairs = [(inner[2 * i], inner[2 * i + 1]) for i in range(forwards)]
    return made


def test_a_reading_is_the_graph_and_each_forward() -> None:
    reading = read_sets([events(1.0, 1.02, 1.27, 1.29, 1.54, 1.6, forwards=2)])
    assert isinstance(reading, Reading)
    assert reading.graph_us == pytest.approx(600)
    assert reading.steps_us == pytest.approx((250, 250))


def test_several_graphs_of_a_phase_are_read_as_one() -> None:
    reading = read_sets([events(1.0, 1.1, 1.3, 1.4, forwards=1), events(1.5, 1.6, 1.9, 2.0, forwards=1)])
    assert isinstance(reading, Reading)
    assert reading.graph_us == pytest.approx(1000)
    assert reading.steps_us == pytest.approx((200, 300))


@pytest.mark.parametrize("passed", range(1, 6))
def test_a_mix_of_two_replays_is_refused_wherever_the_second_one_is(passed: int) -> None:
    times = [1.0, 1.02, 1.27, 1.29, 1.54, 1.6]
    mixed = [time + 7 for time in times[:passed]] + times[passed:]
    assert read_sets([events(*mixed, forwards=2)]) == OUT_OF_ORDER


def test_a_whole_second_replay_is_believed() -> None:
    reading = read_sets([events(8.0, 8.02, 8.27, 8.6, forwards=1)])
    assert isinstance(reading, Reading) and reading.graph_us == pytest.approx(600)


def test_a_replay_that_passes_between_two_readings_is_refused() -> None:
    assert read_sets([events(1.0, 1.02, 1.27, 1.6, forwards=1, kind=Replayed)]) == CHANGED


def test_an_event_that_is_not_passed_is_not_asked_for_its_time() -> None:
    assert read_sets([events(1.0, 1.02, None, 1.6, forwards=1)]) == NOT_PASSED


def test_a_forward_without_duration_is_refused() -> None:
    assert read_sets([events(1.0, 1.02, 1.02, 1.6, forwards=1)]) == NO_TIME


def test_a_graph_that_ran_twice_in_a_phase_cannot_be_read() -> None:
    one = events(1.0, 1.5)
    assert unreadable([one, one]) == TWICE and unreadable([one]) is None


def test_a_phase_with_a_replay_that_had_no_events_cannot_be_read() -> None:
    assert unreadable([events(1.0, 1.5), "its copy is being made"]) == "its copy is being made"


def test_a_graph_cannot_take_longer_than_the_call_around_it() -> None:
    assert fits_stage(Reading(600, ()), 640) and fits_stage(Reading(600, ()), None)
    assert not fits_stage(Reading(900, ()), 640)


def test_an_error_of_the_driver_is_a_reason() -> None:
    broken = events(1.0, 1.5)
    broken.first = object()
    assert str(read_sets([broken])).startswith("asking failed: ")
