"""Lists and ranges of numbers as options (click callbacks)."""

from __future__ import annotations

import click

_MOST_STEPS = 64


def step_list(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Return step counts in the order given, once each: "0:8" (both ends included), "1,2,5", or mixed."""
    if text is None:
        return None
    found: dict[int, None] = {}
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not _is_count(first) or (colon and not _is_count(last)):
            raise click.BadParameter(f"{part.strip()!r} is no step count; write 0:8 or 1,2,5")
        start, end = int(first), int(last) if colon else int(first)
        if end < start or end > _MOST_STEPS:
            raise click.BadParameter(f"{part.strip()!r} must rise and end at {_MOST_STEPS} or below")
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
            raise click.BadParameter(f"{part!r} is no whole number of at least 1; write 1,2,4")
    return tuple(int(part) for part in parts)


def share_list(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
    """Return numbers separated by commas."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers; write 0.7,0.5,0.3") from None
