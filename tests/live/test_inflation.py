"""What a trace cost its own cycles, from the times between cycles."""

from __future__ import annotations

from toolkit.live.inflation import trace_inflation
from toolkit.schema.spans import RankSpans, SpanCycle


def spans(periods_us: list[int]) -> RankSpans:
    at, cycles = 0, []
    for number, period in enumerate([*periods_us, 0]):
        cycles.append(SpanCycle(cycle=number, t_ns=at, batch_size=1))
        at += period * 1000
    return RankSpans(source="", tp_rank=0, clock="", dropped=0, cycles=tuple(cycles))


def test_cycles_inside_the_window_are_compared_with_those_around_it() -> None:
    rank = spans([100] * 10 + [150] * 10 + [100] * 10)
    found = trace_inflation([rank], 1_000_000, 2_500_000, 2_500_000)
    assert found["inflation"] == 1.5
    assert found["cycles"] == 10


def test_the_time_in_which_files_were_written_is_on_neither_side() -> None:
    rank = spans([100] * 10 + [150] * 10 + [9000] * 5 + [100] * 10)
    found = trace_inflation([rank], 1_000_000, 2_500_000, 47_500_000)
    assert found["cycle_us_around"] == 100


def test_too_few_cycles_say_nothing() -> None:
    assert trace_inflation([spans([100, 100])], 0, 100_000, 100_000) == {}
    assert trace_inflation([], 0, 1, 1) == {}
