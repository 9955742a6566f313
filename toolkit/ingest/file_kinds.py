"""Which kind of file a path holds, by its content: names are only hints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from toolkit.errors import BadInputError
from toolkit.ingest.byte_chunks import read_chunks
from toolkit.ingest.measurements import is_measurement_table
from toolkit.ingest.server_log import read_log_line

FileKind = Literal["trace", "spans", "run", "client", "table", "log", "gpu", "model", "empty", "unknown"]

_PEEK_BYTES = 1 << 18
_SCHEMA = re.compile(r'"schema"\s*:\s*"toolkit\.([a-z-]+)/')
_SCHEMA_KINDS: dict[str, FileKind] = {
    "run": "run",
    "spans": "spans",
    "client": "client",
    "gpu": "gpu",
    "cost-model": "model",
}
_TRACE_HINTS = ('"traceEvents"', '"ph"', '"schemaVersion"', '"deviceProperties"', '"distributedInfo"')
_LOG_SUFFIXES = (".log", ".out", ".txt")
_LINES_OF_A_LOG = re.compile(r"server_args=|LLM engine|Decode batch|Prefill batch|SpecDecoding metrics")


def file_kind(path: Path) -> FileKind:
    """Return what a file is. A file that says nothing in its first 256 KB is `unknown`.

    Raises BadInputError if it cannot be read.
    """
    if path.name == "gpu.jsonl":
        return "gpu"
    head = b"".join(_first(path))
    if not head.strip():
        return "empty"
    if b"\0" in head[:4096] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "unknown"
    text = head.decode("utf-8-sig", "replace")
    start = text.lstrip()
    if start.startswith(("{", "[{", "[\n", "[ ")):
        found = _json_kind(start, path)
        if found:
            return found
    first_line = start.split("\n", 1)[0]
    if is_measurement_table(first_line):
        return "table"
    return "log" if _is_log(text, path) else "unknown"


def _first(path: Path) -> list[bytes]:
    """Return the first piece of a file, inflated; damage is the real reader's to report."""
    for chunk in read_chunks(path, [], _PEEK_BYTES):
        return [chunk[:_PEEK_BYTES]]
    return []


def _json_kind(text: str, path: Path) -> FileKind | None:
    schema = _SCHEMA.search(text[:4096])
    if schema:
        return _SCHEMA_KINDS.get(schema[1], "unknown")
    if any(hint in text for hint in _TRACE_HINTS) or ".trace.json" in path.name:
        return "trace"
    return "unknown" if text.startswith("{") else None


def _is_log(text: str, path: Path) -> bool:
    if path.suffix in _LOG_SUFFIXES or _LINES_OF_A_LOG.search(text):
        return any(read_log_line(line).kind != "other" for line in text.splitlines()) or bool(
            _LINES_OF_A_LOG.search(text)
        )
    return False


def require_readable(path: Path) -> None:
    """Raise BadInputError if a path does not exist or is neither file nor folder."""
    if path.is_file() or path.is_dir():
        return
    why = "is neither a file nor a folder" if path.exists() else "does not exist"
    raise BadInputError(f"{path} {why}; give a run folder, a trace, a log or measurements.csv")
