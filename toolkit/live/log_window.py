"""The server's own log: its start-up lines, and what it printed while we looked."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.logs.server_log import read_log_line
from toolkit.ingest.logs.server_notes import ServerNotes
from toolkit.schema.run import RunInfo

_HEAD_BYTES = 1 << 20
_WINDOW_BYTES = 1 << 26
_LOOK_S = 0.1
_SERVES = re.compile(r"(?:running on|ready|server(?: [0-9]{1,4})? on) https?://[^\s/:]{1,80}:([0-9]{1,5})")


def ports_in_log(log: Path) -> list[int]:
    """Return the ports that the log's first lines say are served."""
    return [int(found[1]) for line in _head(log) if (found := _SERVES.search(line))]


def settings_in_log(log: Path) -> RunInfo | None:
    """Return what the start-up lines say of the server; None where they are gone or speak of two."""
    notes = ServerNotes(str(log))
    try:
        for number, line in enumerate(_head(log), 1):
            notes.add(line, number)
    except BadInputError:
        return None
    return notes.server()


def _head(log: Path) -> Iterator[str]:
    try:
        with log.open("rb") as file:
            raw = file.read(_HEAD_BYTES)
    except OSError:
        return
    yield from raw.decode(errors="replace").split("\n")


class LogWindow:
    """What is appended to a log from now on."""

    def __init__(self, log: Path | None) -> None:
        self._log = log
        self._start = self._size()

    def _size(self) -> int:
        try:
            return self._log.stat().st_size if self._log else 0
        except OSError:
            return 0

    @classmethod
    def moves(cls, log: Path, within_s: float) -> bool:
        """Say whether the server prints of decoding within a time: an idle one does not."""
        window = cls(log)
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            time.sleep(_LOOK_S)
            if window.lines():
                return True
        return False

    def lines(self) -> list[str]:
        """Return the lines of the window that say how the server decoded; no other line is kept."""
        if self._log is None:
            return []
        begin = self._start if self._size() >= self._start else 0  # it was begun anew
        try:
            with self._log.open("rb") as file:
                file.seek(begin)
                raw = file.read(_WINDOW_BYTES)
        except OSError:
            return []
        whole = raw[: raw.rfind(b"\n") + 1].decode(errors="replace").split("\n")
        return [line for line in whole if _is_read(line)]


def _is_read(line: str) -> bool:
    found = read_log_line(line)
    return found.kind != "other" or found.tok_s is not None
