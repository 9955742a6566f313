"""One trace file read in parts, each by a process of its own; the parts give what one pass gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from toolkit.errors import BadInputError
from toolkit.ingest.byte_chunks import read_chunks, read_range
from toolkit.ingest.traces.chrome_events import StreamResult, first_boundary, stream_events
from toolkit.ingest.traces.event_rows import EventRows

_WORTH_SPLITTING_BYTES = 16 << 20
_LOOKED_AT_BYTES = 1 << 16  # for a boundary between events behind the place where a part should begin


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes `start` to `stop` of a file, all of it (inflated) where `stop` is None.

    `spool` takes rows that are too many for memory; a process that is forked later writes into it too.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    spool: BinaryIO | None = None


@dataclass
class PartRead:
    """The rows of one part, what else stood in it, and sentences on damage."""

    rows: EventRows
    result: StreamResult
    damage: list[str]
    refused: BadInputError | None = None


def places_of_parts(path: Path, parts: int) -> list[tuple[int, int]]:
    """Return where the parts of a plain JSON object begin and end; none where it is not worth it."""
    try:
        size = path.stat().st_size
        if parts < 2 or size < _WORTH_SPLITTING_BYTES:
            return []
        with open(path, "rb") as file:
            if not file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
                return []
            edges = [0]
            for number in range(1, parts):
                wanted = size * number // parts
                file.seek(wanted)
                found = first_boundary(file.read(_LOOKED_AT_BYTES))
                if not found:
                    return []
                edges.append(wanted + found)
    except OSError:
        return []
    return list(zip(edges, [*edges[1:], size], strict=True))


def read_part(part: FilePart) -> PartRead:
    """Read the events of a part into rows."""
    rows = EventRows(part.spool)
    damage: list[str] = []
    if part.stop is None:
        chunks = read_chunks(part.path, damage)
    else:
        chunks = read_range(part.path, part.start, part.stop)
    try:
        result = stream_events(chunks, rows.consume, rows.take, inside_events=part.start > 0)
    except BadInputError as error:
        return PartRead(rows, StreamResult(), damage, error)
    return PartRead(rows, result, damage)


def fit_together(parts: Sequence[PartRead]) -> bool:
    """Return whether parts were cut between events and hold nothing that one pass might see otherwise."""
    for number, part in enumerate(parts):
        result = part.result
        if part.refused or not result.events or result.lost_events or result.cut_event:
            return False
        if result.complete != (number == len(parts) - 1):
            return False
        if number and part.rows.threads:  # numbered in the order in which they appear
            return False
    return True
