"""Acceptance is pooled from counts, never averaged from rates."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.analysis.acceptance import from_log, from_requests, from_spans
from toolkit.analysis.cells.log_windows import LogWindow
from toolkit.schema.client import RequestCount
from toolkit.schema.spans import SpanCycle


def request(*histogram: int) -> RequestCount:
    """Return a request of whose cycles histogram[i] kept i drafts."""
    kept = sum(i * times for i, times in enumerate(histogram))
    return RequestCount(
        verify_cycles=sum(histogram), num_correct_drafts=kept, correct_drafts_histogram=histogram
    )


def window(batch: int, length: float | None, rate: float | None = None, **said: object) -> LogWindow:
    base = {
        "tok_s": 1.0,
        "cycle_us": None,
        "context_tokens": None,
        "accept_by_position": (),
        "request_cycles": None,
        "line_number": 1,
    }
    return LogWindow(batch_size=batch, accept_length=length, accept_rate=rate, **{**base, **said})  # type: ignore[arg-type]


def test_requests_are_pooled_by_their_cycles() -> None:
    found = from_requests([request(0, 30), request(10)])  # 30 cycles of 2 tokens, 10 cycles of 1
    assert found is not None
    assert found.accept_length == 1.75
    assert (found.cycles, found.requests) == (40, 2)


def test_the_share_kept_at_each_position_counts_all_cycles() -> None:
    found = from_requests([request(1, 1, 2), request(4)])
    assert found is not None
    assert found.accept_by_position == (0.375, 0.25)
    assert found.accept_length == pytest.approx(1 + sum(found.accept_by_position))


def test_the_standard_error_is_that_of_a_ratio_with_requests_as_units() -> None:
    found = from_requests([request(0, 10), request(10, 0)])
    assert found is not None
    assert found.accept_length == 1.5
    # residuals 20 - 15 = 5 and 10 - 15 = -5: sqrt(2/1 * 50) / 20
    assert found.se == pytest.approx(0.5)


def test_one_request_gives_no_standard_error() -> None:
    found = from_requests([request(5, 5)])
    assert found is not None
    assert found.se is None


def test_requests_without_counters_say_nothing() -> None:
    assert from_requests([RequestCount(output_tokens=5), RequestCount(verify_cycles=0)]) is None
    assert from_spans([SpanCycle(cycle=0, t_ns=0)]) is None
    assert from_log([window(1, None)], None) is None


@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=6), min_size=1, max_size=5))
def test_positions_never_rise_and_add_up_to_the_length(histograms: list[list[int]]) -> None:
    found = from_requests([request(*histogram) for histogram in histograms])
    if found is None:
        assert not any(map(sum, histograms))
        return
    kept = found.accept_by_position
    assert all(a >= b for a, b in pairwise(kept))
    assert found.accept_length is not None
    assert math.isclose(found.accept_length, 1 + sum(kept))


def test_spans_count_each_request_of_a_cycle() -> None:
    cycles = [
        SpanCycle(cycle=0, t_ns=0, correct_drafts=(3, 1)),
        SpanCycle(cycle=1, t_ns=1, correct_drafts=(0,)),
    ]
    found = from_spans(cycles)
    assert found is not None
    assert found.accept_length == pytest.approx(1 + 4 / 3)
    assert found.cycles == 3
    assert found.accept_by_position == pytest.approx((2 / 3, 1 / 3, 1 / 3))


def test_windows_of_a_log_weigh_as_their_running_requests() -> None:
    found = from_log([window(1, 1.0), window(3, 3.0)], None)
    assert found is not None
    assert found.accept_length == 2.5


def test_lengths_and_rates_of_a_log_settle_what_its_rate_means() -> None:
    old = from_log([window(1, 2.17, 0.36), window(1, 1.65, 0.28)], 6)
    new = from_log([window(1, 2.0, 0.2), window(1, 3.5, 0.5)], 6)
    assert old is not None
    assert new is not None
    assert (old.rate_kind, new.rate_kind) == ("length/tokens", "correct/proposed")


def test_positions_of_a_log_weigh_as_their_cycles() -> None:
    known = [
        window(1, 2.0, accept_by_position=(0.8, 0.2), request_cycles=300),
        window(1, 2.0, accept_by_position=(0.4,), request_cycles=100),
    ]
    found = from_log(known, None)
    assert found is not None
    assert found.accept_by_position == pytest.approx((0.7, 0.15))
