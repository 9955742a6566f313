"""One line of progress on a terminal, nothing anywhere else."""

from __future__ import annotations

import sys

_WIDTH = 78


class Progress:
    """Shows the last thing said; `clear` takes the line away before anything else is printed."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Show a text in place of the one before."""
        if self._shown:
            sys.stderr.write(f"\r{text[:_WIDTH]:<{_WIDTH}}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r" + " " * _WIDTH + "\r")
            sys.stderr.flush()
