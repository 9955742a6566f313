"""What the windows of a log say together: how to read its rate, and whether its cycle follows acceptance."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.analysis.accept_rate import accept_length_from_rate, settle_convention
from toolkit.analysis.cells.log_windows import LogWindow
from toolkit.units import ms_from_us

_TELLING = 0.1  # lengths closer than this, relative, cannot show that a cycle follows them
_HARDLY = 0.5  # a cycle that moves by less than half as much as the accept length does not follow it


def log_notes(windows: Sequence[LogWindow], num_draft_tokens: int | None) -> tuple[str, ...]:
    """Return the sentences that apply, none for windows without accept lengths."""
    found = (_rate_note(windows, num_draft_tokens), _cycle_note(windows))
    return tuple(note for note in found if note)


def _rate_note(windows: Sequence[LogWindow], num_draft_tokens: int | None) -> str | None:
    """Say what the first printed rate stands for, beside the length on its own line."""
    rated = [(w.accept_length, w.accept_rate) for w in windows if w.accept_length and w.accept_rate]
    settled = settle_convention(rated, num_draft_tokens) if rated else None
    width = settled.num_draft_tokens if settled else None
    if settled is None or width is None:
        return None
    length, rate = rated[0]
    meant = accept_length_from_rate(rate, "log", width, settled.convention)
    tokens = f"{rate:.2f} x {width}"
    if settled.convention == "correct/proposed":
        tokens = f"1 + {rate:.2f} x {width - 1}"
    return (
        f"accept rate {rate:.2f} is {settled.convention}: {tokens} = {meant:.2f} tokens a cycle "
        f"(its line says {length:.2f})"
    )


def _cycle_note(windows: Sequence[LogWindow]) -> str | None:
    """Say that the cycle does not follow acceptance, where windows differ enough to show it."""
    pairs = sorted((w.accept_length, w.cycle_us) for w in windows if w.accept_length and w.cycle_us)
    if len(pairs) < 2:
        return None
    shortest, longest = pairs[0][0], pairs[-1][0]
    cycles = sorted(cycle for _, cycle in pairs)
    if longest < (1 + _TELLING) * shortest:
        return None
    if cycles[-1] / cycles[0] - 1 > _HARDLY * (longest / shortest - 1):
        return None
    return (
        f"the cycle is {ms_from_us(cycles[0]):.1f} to {ms_from_us(cycles[-1]):.1f} ms at accept lengths "
        f"{shortest:.2f} to {longest:.2f}: it hardly depends on what is accepted"
    )
