"""Conventions of the accept rate, told apart and converted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.analysis.accept_rate import (
    Fit,
    RateConvention,
    accept_length_from_rate,
    check_rate,
    convention_of_version,
    conventions_of,
    log_rate,
    readings,
    settle_convention,
)
from toolkit.errors import UndeterminedError, UsageError

OLD: RateConvention = "length/tokens"
NEW: RateConvention = "correct/proposed"


@pytest.mark.parametrize(
    ("length", "rate", "fits"),
    [
        (2.17, 0.54, {Fit(OLD, 4)}),
        (2.17, 0.36, {Fit(OLD, 6)}),
        (3.05, 0.68, {Fit(NEW, 4)}),
        (2.36, 0.19, {Fit(NEW, 8)}),
        (2.92, 0.18, {Fit(OLD, 16), Fit(NEW, 12)}),
        (1.00, 0.11, {Fit(OLD, 9)}),
    ],
)
def test_one_published_line_fits_these(length: float, rate: float, fits: set[Fit]) -> None:
    assert conventions_of(length, rate) == fits


def test_a_known_width_decides_an_ambiguous_line() -> None:
    assert conventions_of(2.92, 0.18, num_draft_tokens=16) == {Fit(OLD, 16)}


def test_nothing_correct_at_rate_0_is_the_new_convention_at_an_unknown_width() -> None:
    reading = settle_convention([(1.0, 0.0), (1.0, 0.0)])
    assert reading is not None and (reading.convention, reading.num_draft_tokens) == (NEW, None)


def test_several_lines_settle_what_one_leaves_open() -> None:
    assert settle_convention([(3.55, 0.51)]) is None
    reading = settle_convention([(3.55, 0.51), (4.42, 0.69)])
    assert reading is not None and (reading.convention, reading.num_draft_tokens, reading.lines) == (
        NEW,
        6,
        2,
    )


def test_lines_that_contradict_the_width_given_say_so() -> None:
    reading = settle_convention([(2.17, 0.36), (1.65, 0.28)], 4)
    assert reading is not None and (reading.convention, reading.num_draft_tokens) == (OLD, 6)
    assert reading.note == "the log's lengths and rates do not fit 4 draft tokens but 6"


def test_no_lines_settle_nothing() -> None:
    assert settle_convention([]) is None
    assert settle_convention([], 6) is None


@given(
    convention=st.sampled_from([OLD, NEW]),
    width=st.integers(2, 64),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_lines_printed_under_a_convention_always_fit_it(
    convention: RateConvention, width: int, shares: list[float]
) -> None:
    for share in shares:
        length = 1 + share * (width - 1)
        rate = log_rate(length, width, convention)
        assert rate is not None
        assert Fit(convention, width) in conventions_of(round(length, 2), round(rate, 2))


@given(convention=st.sampled_from([OLD, NEW]), width=st.integers(3, 16), base=st.floats(0.2, 0.3))
def test_a_run_s_lines_settle_the_convention_and_the_width(
    convention: RateConvention, width: int, base: float
) -> None:
    lengths = [1 + (width - 1) * (base + 0.05 * n) for n in range(12)]
    lines = [(round(length, 2), round(log_rate(length, width, convention) or 0, 2)) for length in lengths]
    reading = settle_convention(lines, width)
    assert reading is not None and (reading.convention, reading.num_draft_tokens) == (convention, width)


@pytest.mark.parametrize(
    ("kind", "convention", "length"),
    [("log", OLD, 2.16), ("log", NEW, 2.80), ("draft", None, 2.80), ("conditional", None, 1.56)],
)
def test_the_table_of_the_contract(kind, convention, length) -> None:  # type: ignore[no-untyped-def]
    assert accept_length_from_rate(0.36, kind, 6, convention) == pytest.approx(length, abs=0.002)


def test_all_readings_are_given_and_an_unknown_one_is_none() -> None:
    assert readings(0.36, 6, OLD)["log"] == pytest.approx(2.16)
    assert readings(0.36, 6)["log"] is None
    assert list(readings(0.36, 6)) == ["log", "draft", "conditional"]


def test_an_unknown_convention_is_undetermined_and_both_readings_are_named() -> None:
    with pytest.raises(UndeterminedError, match=r"2\.16.*2\.80.*--rate-kind"):
        accept_length_from_rate(0.36, "log", 6)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (36, r"did you mean 0\.36 \(a percent\)"),
        (1.2, "--accept-length"),
        (-1, "between 0 and 1"),
        (float("nan"), "nan"),
    ],
)
def test_what_is_no_rate_is_refused(rate: float, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_rate(rate)


def test_rate_0_is_no_accept_length_over_tokens_but_is_no_correct_draft() -> None:
    assert accept_length_from_rate(0, "draft", 6) == 1
    assert accept_length_from_rate(0, "conditional", 6) == 1
    with pytest.raises(UsageError, match=r"at least 0\.17"):
        accept_length_from_rate(0, "log", 6, OLD)


def test_a_conditional_rate_of_a_tree_runs_over_its_steps_not_its_tokens() -> None:
    assert accept_length_from_rate(0.5, "conditional", 16, num_steps=2) == 1.75
    assert accept_length_from_rate(1, "conditional", 6) == 6


@given(rate=st.floats(0, 1), width=st.integers(1, 64))
def test_every_reading_lies_between_1_and_the_width(rate: float, width: int) -> None:
    for length in readings(rate, width, OLD).values():
        assert length is None or 1 <= length <= width + 1e-9


@pytest.mark.parametrize(
    ("engine", "version", "convention"),
    [
        ("sglang", "0.5.9", OLD),
        ("sglang", "0.5.3.post3", OLD),
        ("sglang", "0.5.10", None),
        ("sglang", "0.5.11", NEW),
        ("sglang", "v0.5.15.post1", NEW),
        ("sglang", "1.0", NEW),
        ("sglang", None, None),
        ("SGLang", "main", None),
        ("vllm", None, NEW),
        (None, "0.5.9", None),
    ],
)
def test_a_version_tells_the_convention(
    engine: str | None, version: str | None, convention: str | None
) -> None:
    assert convention_of_version(engine, version) == convention
