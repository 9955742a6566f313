"""Acceptance lines of other engines: llama.cpp per request and in total, xinfer's MTP statistics."""

from __future__ import annotations

import re

from toolkit.ingest.logs.log_fields import Number, elided, number_after
from toolkit.ingest.logs.log_prefix import prefix_of
from toolkit.schema.log import LogLine

_LLAMA_HEAD = re.compile(r"draft acceptance(?: rate)? ?= ?|statistics +[\w-]{1,40} ?: #")
_LLAMA_RATE = re.compile(r"draft acceptance(?: rate)? ?= ?")
_LLAMA_LENGTH = re.compile(r"(?:mean acceptance length|#mean acc len) ?= ?")
_LLAMA_SPEED = re.compile(r"(prompt )?\beval time =")
_PER_SECOND = re.compile(r"([0-9]{1,9}\.[0-9]{1,6}) tokens per second")
_MTP_HEAD = re.compile(r"MTP Stats ?:")
_MTP_RATE = re.compile(r"acceptance_rate ?= ?")
_RUST_MODULE = re.compile(r"\b([a-z][a-z0-9_]{1,30})::[\w:]{1,80}: ?$")


def read_other_engine_line(line: str, line_number: int) -> LogLine | None:
    """Return what a plain line of a lesser-known engine says; None for any other line."""
    if "acceptance" in line or "#calls" in line:
        head = _LLAMA_HEAD.search(line)
        if head:
            return _llama(line, head.start(), line_number)
        head = _MTP_HEAD.search(line)
        if head:
            return _mtp(line, head.start(), line_number)
    timing = _LLAMA_SPEED.search(line) if "eval time" in line else None
    if timing:
        speed = _PER_SECOND.search(line)
        tok_s = float(speed[1]) if speed and not timing[1] else None  # a prompt's speed is no generation
        return LogLine(engine="llama.cpp", tok_s=tok_s, truncated=speed is None, line_number=line_number)
    return None


def _llama(line: str, start: int, line_number: int) -> LogLine:
    said = line[start:].rstrip()
    rate, length = number_after(said, _LLAMA_RATE), number_after(said, _LLAMA_LENGTH)
    return LogLine(
        engine="llama.cpp",
        kind="spec_metrics",
        accept_length=_whole(length),
        accept_rate=_whole(rate),
        timestamp=prefix_of(line, start).timestamp,
        truncated=_llama_is_cut(said) or elided(said),
        line_number=line_number,
    )


def _llama_is_cut(said: str) -> bool:
    """Say whether a line stops early: older ones end with the counts, later ones with more in brackets."""
    if said.startswith("statistics"):
        return "#acc tokens" not in said or ("(b,g,a)" in said and not said.endswith("ms"))
    _, counts, rest = said.partition("generated)")
    if not counts or not rest:
        return not counts or not said.startswith("draft acceptance rate")
    return not rest.endswith(")")


def _mtp(line: str, start: int, line_number: int) -> LogLine:
    """Return an `MTP Stats` line; its tokens per step is one too many, so no length is read."""
    said = line[start:]
    rate = number_after(said, _MTP_RATE)
    module = _RUST_MODULE.search(line, 0, start)
    prefix = prefix_of(line, start)
    return LogLine(
        engine=module[1] if module else None,
        kind="spec_metrics",
        accept_rate=rate.fraction if rate and rate.percent else None,
        timestamp=prefix.timestamp,
        truncated="tokens/step" not in said or said.rstrip().endswith(("=", ".")) or elided(said),
        line_number=line_number,
    )


def _whole(number: Number | None) -> float | None:
    return number.value if number and not number.at_end else None
