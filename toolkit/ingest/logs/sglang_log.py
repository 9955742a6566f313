"""SGLang's `Decode batch` and `Prefill batch` lines, all versions.

Fields are read by name: their order, set and punctuation changed many times (docs/reference.md).
"""

from __future__ import annotations

import re

from toolkit.ingest.logs.log_fields import Number, comma_fields, elided, number_at
from toolkit.ingest.logs.log_prefix import prefix_end, prefix_of
from toolkit.schema.log import LineKind, LogLine

# Decode batch. | Decode batch, | Decode batch [123], | Decode batch phase=verify,
_HEAD = re.compile(
    r"(Decode|Prefill) batch(?: ?\[[^\[\]]{0,40}\])?(?:,? \w{1,30}=[\w.:/-]{1,40}){0,4}[.,:]?(?=[\s#]|$)"
)
_CUT_IN_HEAD = re.compile(r"(Decode|Prefill) batch(?: \[[0-9]{0,18}\]?)?$")
_HEADLESS = re.compile(r"(?:^|[,\]|]) ?(?:accept len|gen throughput \(token/s\)|#running-req): ?[0-9]")
_FIRST_FIELDS = (
    "#running-req",
    "#new-seq",
    "#token",
    "#full token",
    "#new-token",
    "token usage",
    "gen throughput (token/s)",
)
_QUOTES = re.compile(r"ReqInput\(")  # a logged request: its prompt may hold anything
_GRAPH = {"True": True, "False": False}
_TWO_DIGITS = ("accept len", "accept rate", "usage", "throughput (token/s)")  # printed with .2f


def read_sglang_line(line: str, line_number: int) -> LogLine | None:
    """Return what a plain line says; None when it is not one of SGLang's batch lines."""
    if "batch" not in line and "token/s" not in line and "accept len" not in line:
        return None
    head = _HEAD.search(line)
    if head and _QUOTES.search(line, 0, head.start()):
        return None
    if head is None:
        cut = _CUT_IN_HEAD.search(line)
        if cut:
            return _line(line, cut.start(), _kind(cut[1]), {}, True, line_number)
        return _fragment(line, line_number) if _HEADLESS.search(line) else None
    following = _HEAD.search(line, head.end())
    end = following.start() if following else len(line)
    fields, last = comma_fields(line[head.end() : end])
    if not fields and last.strip() and not last.lstrip().startswith("#"):
        return None  # prose that mentions a decode batch
    if fields and not any(name in fields for name in _FIRST_FIELDS):
        return None
    kind = _kind(head[1])
    truncated = _is_cut(kind, fields, last) or elided(line[head.end() : end])
    return _line(line, head.start(), kind, fields, truncated, line_number)


def _kind(word: str) -> LineKind:
    return "decode" if word == "Decode" else "prefill"


def _fragment(line: str, line_number: int) -> LogLine | None:
    """Return a line that lost its head: pasted without it, or the second part of a wrapped line."""
    start = prefix_end(line)
    fields, last = comma_fields(line[start:])
    if "#new-seq" in fields or "#new-token" in fields or "input throughput (token/s)" in fields:
        return _line(line, start, "prefill", fields, True, line_number)
    if "accept len" not in fields and "gen throughput (token/s)" not in fields:
        return None
    whole = next(iter(fields), "") == "#running-req" and not _is_cut("decode", fields, last)
    return _line(line, start, "decode", fields, not whole or elided(line), line_number)


def _line(
    line: str, start: int, kind: LineKind, fields: dict[str, str], truncated: bool, line_number: int
) -> LogLine:
    prefix = prefix_of(line, start)
    length, rate = (
        _real(fields, "accept len"),
        _real(fields, "accept rate") or _real(fields, "acceptance rate"),
    )
    throughput = _real(fields, "gen throughput (token/s)")
    context = _count(fields, "#token")
    return LogLine(
        engine="sglang",
        kind=kind,
        running_req=_count(fields, "#running-req"),
        accept_length=length.value if length else None,
        accept_rate=rate.fraction if rate else None,
        tok_s=throughput.value if throughput and kind == "decode" else None,
        graph=_graph(fields),
        timestamp=prefix.timestamp,
        ranks=prefix.ranks,
        truncated=truncated,
        line_number=line_number,
        context_tokens=context if context is not None else _count(fields, "#full token"),
        queued_req=_count(
            fields, "#queue-req", last_is_whole="gen throughput (token/s)" in fields or kind == "prefill"
        ),
    )


def _is_cut(kind: str, fields: dict[str, str], last: str) -> bool:
    """Say whether a line stops early: a field that every line has is missing, or the last is not whole."""
    needed = "gen throughput (token/s)" if kind == "decode" else "#queue-req"
    if needed not in fields:
        return True
    name, colon, value = last.partition(":")
    name, value = name.strip().lower(), value.lstrip()
    if value.rstrip().endswith(","):
        return False
    if not colon or not value or value.endswith((".", "-", ":")):
        return True
    if name.endswith(" graph"):
        return value.split()[0] not in _GRAPH
    number = number_at(value)
    return name.endswith(_TWO_DIGITS) and number is not None and number.at_end and number.decimals != 2


def _real(fields: dict[str, str], name: str) -> Number | None:
    """Return a number; one that ends the line only where its two digits show that it is whole."""
    number = number_at(fields.get(name, ""))
    if number is None or not number.at_end:
        return number
    return number if name == "gen throughput (token/s)" and number.decimals == 2 else None


def _count(fields: dict[str, str], name: str, last_is_whole: bool = False) -> int | None:
    number = number_at(fields.get(name, ""))
    if number is None or number.decimals or number.percent:
        return None
    return int(number.text) if last_is_whole or not number.at_end else None


def _graph(fields: dict[str, str]) -> bool | None:
    for name, value in fields.items():
        if name.endswith(" graph"):
            return _GRAPH.get(value.split()[0].rstrip(",")) if value.split() else None
    return None
