"""Which kind of file a path holds, by its content: names are only hints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from toolkit.errors import BadInputError
from toolkit.ingest.byte_chunks import read_chunks
from toolkit.ingest.measurements import is_measurement_table
from toolkit.ingest.text_files import decoded

FileKind = Literal[
    "trace",
    "spans",
    "run",
    "client",
    "table",
    "log",
    "gpu",
    "model",
    "calibration",
    "result",  # JSON that a command of ours printed
    "empty",
    "damaged",  # a gzip file of which nothing can be inflated
    "unknown",
]

_PEEK_BYTES = 1 << 18
_SCHEMA = re.compile(r'"schema"\s*:\s*"toolkit\.([a-z-]+)/')
_SCHEMA_KINDS: dict[str, FileKind] = {
    "run": "run",
    "spans": "spans",
    "client": "client",
    "gpu": "gpu",
    "cost-model": "model",
    "calibration": "calibration",
}
_TRACE_HINTS = re.compile(
    r'"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo)"\s*:|"ph"\s*:\s*"[A-Za-z]"'
)
_LOG_SUFFIXES = (".log", ".out", ".txt")
_LINES_OF_A_LOG = re.compile(
    r"server_args=|LLM engine|Decode batch|Prefill batch|SpecDecoding metrics|Avg generation throughput"
)


def file_kind(path: Path) -> FileKind:
    """Return what a file is. A file that says nothing in its first 256 KB is `unknown`.

    Raises BadInputError if it cannot be read.
    """
    if path.name == "gpu.jsonl":
        return "gpu"
    damage: list[str] = []
    head = _head(path, damage)
    if not head.strip():
        return "damaged" if damage else "empty"
    text = decoded(head)
    if "\0" in text:
        return "log" if _LINES_OF_A_LOG.search(text) else "unknown"
    start = text.lstrip()
    if start.startswith(("{", "[{", "[\n", "[\r", "[ ")):
        found = _json_kind(start, path)
        if found:
            return found
    first_line = start.split("\n", 1)[0]
    if is_measurement_table(first_line):
        return "table"
    return "log" if _is_log(text, path) else "unknown"


def _head(path: Path, damage: list[str]) -> bytes:
    """Return the first bytes of a file; zeros before them, of a log truncated while written, are passed."""
    for chunk in read_chunks(path, damage, _PEEK_BYTES):
        head = chunk.lstrip(b"\0")
        if head:
            return head[:_PEEK_BYTES]
    return b""


def _json_kind(text: str, path: Path) -> FileKind | None:
    schema = _SCHEMA.search(text[:4096])
    if schema:
        return _SCHEMA_KINDS.get(schema[1], "result")
    if _TRACE_HINTS.search(text) or ".trace.json" in path.name:
        return "trace"
    return "unknown" if text.startswith("{") else None


def _is_log(text: str, path: Path) -> bool:
    if path.suffix in _LOG_SUFFIXES or _LINES_OF_A_LOG.search(text):
        from toolkit.ingest.logs.server_log import read_log_line  # its rules take longer to make than a look

        return any(read_log_line(line).kind != "other" for line in text.splitlines()) or bool(
            _LINES_OF_A_LOG.search(text)
        )
    return False


def require_readable(path: Path) -> None:
    """Raise BadInputError if a path does not exist or is neither file nor folder."""
    try:
        if path.is_file() or path.is_dir():
            return
        why = "is neither a file nor a folder" if path.exists() else "does not exist"
    except OSError as error:  # a name that is too long, a folder that may not be entered
        why = f"cannot be read ({error.strerror or error})"
    raise BadInputError(f"{path} {why}; give a run folder, a trace, a log or measurements.csv")
