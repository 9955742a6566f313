"""Lists and ranges of numbers as options."""

from __future__ import annotations

from typing import Any

import click

_MOST_STEPS = 64


class StepList(click.ParamType):
    """Step counts: "0:8" (both ends included), "1,2,5", or both mixed."""

    name = "steps"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the step counts in the order given, once each."""
        if isinstance(value, tuple):
            return value
        found: dict[int, None] = {}
        for part in str(value).split(","):
            first, colon, last = part.strip().partition(":")
            if not first.isdigit() or (colon and not last.isdigit()):
                self.fail(f"{part.strip()!r} is no step count; write 0:8 or 1,2,5", param, ctx)
            start, end = int(first), int(last) if colon else int(first)
            if end < start or end > _MOST_STEPS:
                self.fail(f"{part.strip()!r} must rise and end at {_MOST_STEPS} or below", param, ctx)
            found |= dict.fromkeys(range(start, end + 1))
        return tuple(found)


class NumberList(click.ParamType):
    """Numbers separated by commas; `whole` ones must be integers of at least 1."""

    name = "numbers"

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the numbers in the order given."""
        if isinstance(value, tuple):
            return value
        numbers = []
        for part in str(value).split(","):
            try:
                number = int(part) if self.whole else float(part)
            except ValueError:
                self.fail(f"{part.strip()!r} is no number", param, ctx)
            if self.whole and number < 1:
                self.fail(f"{number} is below 1", param, ctx)
            numbers.append(number)
        return tuple(numbers)
