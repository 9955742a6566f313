"""What a trace file lacks, in sentences, and what makes it unusable."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toolkit.errors import BadInputError
from toolkit.ingest.traces.chrome_events import StreamResult
from toolkit.ingest.traces.event_rows import HOST
from toolkit.ingest.traces.merged_rows import MergedRows
from toolkit.ingest.traces.row_blocks import ID

_MOST_SHARED = 0.2  # of calls whose ids are not theirs alone; of two ranks in one file half of them are


def stream_losses(result: StreamResult, known_cut: bool) -> list[str]:
    """Return sentences on what could not be read; the cut itself only where the gzip stream did not tell."""
    found = []
    if not result.complete and not known_cut:
        where = "in the middle of an event" if result.cut_event else "before the end of its list of events"
        found.append(f"the trace ends {where}; {result.events} events before it were read")
    elif result.cut_end and not known_cut:
        found.append("the trace ends behind its events; the settings that may have stood there are lost")
    if result.cut_head:
        found.append("not all settings before its events could be read")
    if result.complete and result.cut_event:
        found.append("the last event could not be read and was left out")
    if result.lost_events:
        found.append(f"{result.lost_events} events could not be read and were left out")
    return found


def losses(path: Path, result: StreamResult, rows: MergedRows, known_cut: bool) -> list[str]:
    """Return sentences on what the file lacks; the cut itself only where its gzip stream did not tell."""
    found = stream_losses(result, known_cut)
    if rows.bad_times:
        found.append(f"{rows.bad_times} events have no usable time or duration and were left out")
    if rows.bad_ids:
        found.append(f"{rows.bad_ids} events have no usable correlation id; what launched them is lost")
    shared, _ = _shared_calls(rows)
    if shared:
        found.append(
            f"{shared} calls share their correlation id with another; phases may be taken apart wrongly"
        )
    return [f"{path.name}: {sentence}" for sentence in found]


def _shared_calls(rows: MergedRows) -> tuple[int, int]:
    """Return how many calls have the id of another one, and how many there are."""
    calls = np.concatenate([np.zeros(0, dtype=np.int64), *rows.column(HOST, ID)])
    return len(calls) - len(np.unique(calls)), len(calls)


def refuse_unusable(path: Path, result: StreamResult, rows: MergedRows, damage: list[str]) -> None:
    """Raise BadInputError for what is no trace, holds no event, or holds several ranks."""
    if not damage and _is_neither_json_nor_gzip(path):
        damage = ["its bytes are neither JSON nor gzip"]
    notes = f" ({'; '.join(damage)})" if damage else ""
    if not result.found_array:
        raise BadInputError(
            f"{path} is no profiler trace: it has no traceEvents{notes}; "
            "pass a torch profiler .json or .json.gz"
        )
    if not result.events:
        raise BadInputError(f"{path} holds no readable event{notes}; record the trace again")
    if len(rows.rank_labels) > 1:
        labels = ", ".join(sorted(rows.rank_labels)[:4])
        raise BadInputError(
            f"{path} merges several ranks ({labels}); pass the files of the single ranks instead"
        )
    shared, calls = _shared_calls(rows)
    if shared > _MOST_SHARED * calls:
        raise BadInputError(
            f"{path} merges several ranks, or holds events twice: {shared} of its {calls} calls share their "
            "correlation id with another; pass the files of the single ranks instead"
        )


def _is_neither_json_nor_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    return bool(head) and not head.startswith((b"{", b"[", b"\x1f\x8b"))
