"""One line on stderr for what went wrong; once a place, so that a fault in a hot loop fills no log."""

from __future__ import annotations

import sys

_LIMIT = 50  # lines in the life of a process
_said: set[str] = set()


def complain(place: str, error: object) -> None:
    """Say it once. Never raises: stderr may be closed."""
    try:
        if place in _said or len(_said) >= _LIMIT:
            return
        _said.add(place)
        text = str(error).replace("\n", " ")[:300]
        kind = type(error).__name__ + ": " if isinstance(error, BaseException) else ""
        sys.stderr.write(f"toolkit probe: {place}: {kind}{text}\n")
    except Exception:
        return
