"""Gains in words."""

from __future__ import annotations

from toolkit.forecast.wording import signed_percent


def test_a_gain_that_rounds_to_nothing_has_no_minus() -> None:
    assert [signed_percent(gain) for gain in (-0.004, 0.0, -0.006, 0.2, None)] == [
        "+0%",
        "+0%",
        "-1%",
        "+20%",
        "+0%",
    ]
