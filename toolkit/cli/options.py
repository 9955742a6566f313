"""Options as lists: a command with many stays readable, its function short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def with_options(options: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds click options in the order of the list."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated
