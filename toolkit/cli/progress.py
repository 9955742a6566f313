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
        self._write(f"\r{text[:_WIDTH]:<{_WIDTH}}")

    def clear(self) -> None:
        """Take the line away."""
        self._write("\r" + " " * _WIDTH + "\r")

    def _write(self, text: str) -> None:
        if not self._shown:
            return
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the terminal was closed: what is captured is still to be written
            self._shown = False
