"""Lists and ranges of numbers as options (click callbacks)."""

from __future__ import annotations

from math import isfinite

import click

MOST_STEPS = 64
_SHOWN = 40  # characters of a text that cannot be read


def step_list(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Return step counts in the order given, once each: "0:8" (both ends included), "1,2,5", or mixed."""
    if text is None:
        return None
    found: dict[int, None] = {}
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not _is_count(first) or (colon and not _is_count(last)):
            raise click.BadParameter(f"{_cut(part.strip())} is no step count; write 0:8 or 1,2,5")
        start, end = int(first), int(last) if colon else int(first)
        if end < start or end > MOST_STEPS:
            raise click.BadParameter(
                f"{part.strip()!r} must rise and end at {MOST_STEPS} or below; write 0:8"
            )
        found |= dict.fromkeys(range(start, end + 1))
    return tuple(found)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


def whole_list(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Return whole numbers of at least 1, separated by commas."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not _is_count(part) or int(part) < 1:
            raise click.BadParameter(f"{_cut(part)} is no whole number of at least 1; write 1,2,4")
    return tuple(int(part) for part in parts)


def share_list(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
    """Return numbers separated by commas, no more than there can be steps."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) > MOST_STEPS:
        raise click.BadParameter(f"{len(parts)} positions are more than {MOST_STEPS} steps; give fewer")
    try:
        return tuple(float(part) for part in parts)
    except ValueError:
        raise click.BadParameter(f"{_cut(text)} is no list of numbers; write 0.7,0.5,0.3") from None


def finite(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Return a number that is one: NaN and infinity pass click's ranges."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value:g} is no number; give a finite one")
    return value


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
