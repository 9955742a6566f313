"""spans-TP-<r>.jsonl as the probe writes it: a header that can be put right at the end, a cycle a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from . import wire
from .recording import Cycle

_encoded = json.JSONEncoder(separators=(",", ":")).encode  # made once: the writer's time is the engine's
_HEADER_BYTES = 200  # padded with spaces, so that the drop count fits when it is known


class SpansFile:
    """The file of one recording. It is new: nothing is overwritten, and a link is not followed."""

    def __init__(self, folder: str, tp_rank: int, event_pair_us: float | None = None) -> None:
        if not os.path.isabs(folder):
            raise ValueError(f"{folder!r} is not an absolute path")
        self.path = os.path.join(folder, wire.spans_name(tp_rank))
        self._tp_rank = tp_rank
        self._event_pair_us = None if event_pair_us is None else round(event_pair_us, 3)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | os.O_CLOEXEC
        # Unbuffered: what a forked child inherits must hold nothing that it could write a second time.
        self._file = os.fdopen(os.open(self.path, flags, 0o600), "wb", buffering=0)
        self._put(self._header(0))

    def write(self, lines: Iterable[str]) -> None:
        """Append lines."""
        self._put("".join(line + "\n" for line in lines).encode())

    def close(self, dropped: int) -> None:
        """Put the drop count into the header and close. Once."""
        if self._file.closed:
            return
        try:
            self._file.seek(0)
            self._put(self._header(dropped))
        finally:
            self._file.close()

    def _put(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) or 0 :]

    def _header(self, dropped: int) -> bytes:
        header = {
            "schema": wire.SPANS_SCHEMA,
            "tp_rank": self._tp_rank,
            "clock": wire.CLOCK,
            "dropped": dropped,
            "event_pair_us": self._event_pair_us,
        }
        return json.dumps(header).ljust(_HEADER_BYTES - 1).encode() + b"\n"


def cycle_line(cycle: Cycle, stage_us: dict[str, float | None]) -> str:
    """Return the JSON of a resolved cycle."""
    row: dict[str, Any] = {
        "cycle": cycle.number,
        "t_ns": cycle.t_ns,
        "batch_size": cycle.batch_size,
        "padded_batch_size": cycle.padded,
        "context_tokens": cycle.context,
        "num_steps": cycle.num_steps,
        "num_draft_tokens": cycle.num_draft_tokens,
        "graph": cycle.graph,
        "stage_us": stage_us,
        "graph_us": {phase: round(value, 3) for phase, value in cycle.readings.items()} or None,
        "draft_steps_us": None if cycle.steps is None else [round(value, 3) for value in cycle.steps],
        "correct_drafts": cycle.correct,
        "collectives_us": {
            phase: [round(value, 3) for value in values] for phase, values in cycle.collectives.items()
        }
        or None,
    }
    return _encoded(row)
