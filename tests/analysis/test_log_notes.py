"""Sentences that the windows of a log support, and those that they do not."""

from __future__ import annotations

from toolkit.analysis.cells.log_notes import log_notes
from toolkit.analysis.cells.log_windows import LogWindow


def window(length: float | None, rate: float | None, cycle_ms: float | None) -> LogWindow:
    return LogWindow(
        batch_size=1,
        accept_length=length,
        accept_rate=rate,
        tok_s=1.0,
        cycle_us=None if cycle_ms is None else 1000 * cycle_ms,
        context_tokens=None,
        accept_by_position=(),
        request_cycles=40,
        line_number=1,
    )


def test_a_rate_is_spelled_out_by_the_convention_that_its_lines_settle() -> None:
    notes = log_notes([window(2.17, 0.36, 27.4), window(1.65, 0.28, 28.2)], None)
    assert notes[0] == (
        "accept rate 0.36 is length/tokens: 0.36 x 6 = 2.16 tokens a cycle (its line says 2.17)"
    )


def test_the_newer_convention_leaves_the_bonus_token_out() -> None:
    notes = log_notes([window(2.17, 0.39, 7.9), window(2.33, 0.44, 7.8)], 4)
    assert notes == (
        "accept rate 0.39 is correct/proposed: 1 + 0.39 x 3 = 2.17 tokens a cycle (its line says 2.17)",
    )


def test_a_cycle_that_stays_while_acceptance_moves_is_said_to() -> None:
    notes = log_notes([window(2.17, 0.36, 27.4), window(1.65, 0.28, 28.2)], None)
    assert notes[1] == (
        "the cycle is 27.4 to 28.2 ms at accept lengths 1.65 to 2.17: it hardly depends on what is accepted"
    )


def test_a_cycle_that_moves_with_acceptance_is_not() -> None:
    assert len(log_notes([window(2.17, 0.36, 40.0), window(1.65, 0.28, 28.2)], None)) == 1


def test_plain_decoding_has_nothing_to_say() -> None:
    assert log_notes([window(None, None, 4.8), window(None, None, 4.9)], 1) == ()
