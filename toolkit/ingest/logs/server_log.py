"""Server logs: every line read on its own, and the server's settings from its start-up lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError
from toolkit.ingest.logs.log_prefix import plain, prefix_of
from toolkit.ingest.logs.other_logs import read_other_engine_line
from toolkit.ingest.logs.server_notes import ServerNotes
from toolkit.ingest.logs.sglang_log import read_sglang_line
from toolkit.ingest.logs.vllm_log import read_vllm_line
from toolkit.ingest.text_files import read_text_lines
from toolkit.schema.log import LogLine, ServerLog

_NAMES = (  # an engine, the pattern that names it, and what a line must hold for it to be worth a try
    (
        "sglang",
        re.compile(r"(?<![\w.])(?:sglang|SGLang)(?![\w-])|server_args=ServerArgs\("),
        ("sglang", "SGLang", "server_args="),
    ),
    (
        "vllm",
        re.compile(r"(?<![\w.])(?:vllm|vLLM)(?![\w-])|\bV[01] LLM engine|\bSpecDecodeWorker\b"),
        ("vllm", "vLLM", "LLM engine", "SpecDecodeWorker"),
    ),
)
_PROFILER = re.compile(r"\b(Profiling starts)\b|\b(?:Profiling done|Stop profiling)\b")
_CUT_IN_TIME = re.compile(r"\[[0-9]{4}-[0-9]{2}-[^\]]{0,80}$")


def read_log_line(line: str, line_number: int = 0) -> LogLine:
    """Return what one line of a server log says; kind `other` for lines of no known form.

    A number that a cut may have shortened is None. Rates are fractions as printed: no convention
    is applied.
    """
    text = plain(line)
    found = (
        read_sglang_line(text, line_number)
        or read_vllm_line(text, line_number)
        or read_other_engine_line(text, line_number)
    )
    return found or _other(text, line_number)


def _other(text: str, line_number: int) -> LogLine:
    prefix = prefix_of(text, None)
    engine = prefix.engine
    if engine is None:
        names = [
            name
            for name, pattern, hints in _NAMES
            if any(hint in text for hint in hints) and pattern.search(text)
        ]
        engine = names[0] if len(names) == 1 else None
    profiler = _PROFILER.search(text) if "rofiling" in text else None
    return LogLine(
        engine=engine,
        timestamp=prefix.timestamp,
        ranks=prefix.ranks,
        profiler=bool(profiler[1]) if profiler else None,
        truncated=bool(_CUT_IN_TIME.match(text)) or "[...]" in text,
        line_number=line_number,
    )


def read_server_log(path: Path) -> ServerLog:
    """Return all lines of a log that are neither blank nor start with #, and its server's settings.

    A server restarted with the same settings is one server; BadInputError names both when a file
    holds the lines of two. An empty file gives no lines and a sentence in `damage`.
    """
    texts, damage = read_text_lines(path)
    notes = ServerNotes(str(path))
    lines: list[LogLine] = []
    for number, text in enumerate(texts, 1):
        if not text.strip() or text.startswith("#"):
            continue
        line = read_log_line(text, number)
        lines.append(line)
        if line.kind == "other" and line.tok_s is None:
            notes.add(text, number)
    _require_one_engine(lines, path)
    return ServerLog(source=str(path), lines=tuple(lines), server=notes.server(), damage=damage)


def read_log_lines(path: Path) -> list[LogLine]:
    """Return what each line of a file says, lines of several servers too, blank and # lines left out.

    BadInputError if there is no such line.
    """
    texts, damage = read_text_lines(path)
    lines = [
        read_log_line(text, number)
        for number, text in enumerate(texts, 1)
        if text.strip() and not text.startswith("#")
    ]
    if not lines:
        raise BadInputError(
            f"{path} has no line to read: {'; '.join(damage) or 'it holds only comments'}; check the path"
        )
    return lines


def _require_one_engine(lines: list[LogLine], path: Path) -> None:
    """Raise BadInputError when two engines' measurements stand in one file."""
    first: dict[str, LogLine] = {}
    for line in lines:
        if line.engine and (line.kind != "other" or line.tok_s is not None):
            first.setdefault(line.engine, line)
    if len(first) > 1:
        one, two = list(first.values())[:2]
        raise BadInputError(
            f"{path} holds the logs of two servers: {one.engine} from line {one.line_number} and "
            f"{two.engine} from line {two.line_number}; split it into a file for each"
        )


def lines_as_json(lines: Iterable[LogLine]) -> list[dict[str, Any]]:
    """Return the objects that `inspect LOG --lines` prints, one a line, in order."""
    return [
        {
            "engine": line.engine,
            "kind": line.kind,
            "running_req": line.running_req,
            "accept_length": line.accept_length,
            "accept_rate": line.accept_rate,
            "tok_s": line.tok_s,
            "graph": line.graph,
            "timestamp": line.timestamp,
            "ranks": {"tp": line.ranks.tp, "dp": line.ranks.dp, "ep": line.ranks.ep, "pp": line.ranks.pp},
            "truncated": line.truncated,
        }
        for line in lines
    ]
