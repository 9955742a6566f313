"""spans-TP-<r>.jsonl.gz: the cycles that one rank recorded (toolkit.spans/1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from toolkit.errors import BadInputError
from toolkit.ingest.json_files import require_schema, write_atomically
from toolkit.ingest.text_files import read_text_lines
from toolkit.schema.spans import SPANS_SCHEMA, RankSpans, SpanCycle

_RANK_IN_NAME = re.compile(r"spans-TP-([0-9]{1,6})(?![0-9])")
_CYCLE = msgspec.json.Decoder(SpanCycle)
_TOO_LARGE = 2**63  # of ns since 1970 that is the year 2262


def read_spans(path: Path) -> RankSpans:
    """Return the cycles of one rank; `damage` says which lines could not be used, and why.

    The rank is the header's, else that of a file name `spans-TP-<r>`. Unknown keys are ignored;
    BadInputError for a newer schema or a file that holds no spans.
    """
    lines, damage = read_text_lines(path)
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        why = damage or (f"{path} holds no lines",)
        return RankSpans(
            source=str(path), tp_rank=_named_rank(path), clock="", dropped=0, cycles=(), damage=why
        )
    header = _header(numbered[0][1], path)
    body = numbered[1:] if header else numbered
    cycles, faults = _cycles(body, path)
    if header is None:
        if not cycles:
            raise BadInputError(f"{path} has no {SPANS_SCHEMA} header and no cycles; give a spans file")
        faults = (f"{path} has no header line; its rank is taken from its name", *faults)
    said = header or {}
    return RankSpans(
        source=str(path),
        tp_rank=_count(said.get("tp_rank"), _named_rank(path)),
        clock=said["clock"] if isinstance(said.get("clock"), str) else "",
        dropped=_count(said.get("dropped"), 0),
        cycles=tuple(cycles),
        damage=(*damage, *faults),
        event_pair_us=_time_us(said.get("event_pair_us")),
    )


def write_spans(path: Path, spans: RankSpans) -> None:
    """Write a header and a cycle a line; gzip when named .gz; whole or not at all."""
    header = {
        "schema": SPANS_SCHEMA,
        "tp_rank": spans.tp_rank,
        "clock": spans.clock,
        "dropped": spans.dropped,
        "event_pair_us": spans.event_pair_us,
    }
    lines = [msgspec.json.encode(header), *(msgspec.json.encode(cycle) for cycle in spans.cycles)]
    write_atomically(path, b"\n".join(lines) + b"\n")


def _header(line: str, path: Path) -> dict[str, Any] | None:
    """Return the header; None when the first line is a cycle already or is damaged."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(found, dict):
        raise BadInputError(f"{path}: line 1 is not a JSON object; give a {SPANS_SCHEMA} file")
    if "schema" not in found and "cycle" in found:
        return None
    require_schema(found.get("schema"), SPANS_SCHEMA, str(path))
    return found


def _cycles(numbered: list[tuple[int, str]], path: Path) -> tuple[list[SpanCycle], tuple[str, ...]]:
    cycles: list[SpanCycle] = []
    unreadable: list[int] = []
    impossible: list[int] = []
    for number, line in numbered:
        try:
            cycle = _CYCLE.decode(line)
        except (msgspec.DecodeError, RecursionError):
            unreadable.append(number)
            continue
        if _possible(cycle):
            cycles.append(cycle)
        else:
            impossible.append(number)
    faults = []
    if (
        unreadable
        and numbered
        and unreadable[-1] == numbered[-1][0]
        and not numbered[-1][1].rstrip().endswith("}")
    ):
        faults.append(f"{path}: line {unreadable.pop()}, the last, is cut; its cycle is left out")
    if unreadable:
        faults.append(_left_out(path, unreadable, "cannot be read as a cycle"))
    if impossible:
        faults.append(_left_out(path, impossible, "hold a negative, non-finite or too large time or count"))
    return cycles, tuple(faults)


def _left_out(path: Path, lines: list[int], why: str) -> str:
    return f"{path}: {len(lines)} cycles {why} and are left out, the first at line {lines[0]}"


def _possible(cycle: SpanCycle) -> bool:
    """Say whether no time or count of the cycle is negative, not finite or beyond 64 bits."""
    counts = (cycle.cycle, cycle.t_ns, cycle.batch_size, cycle.padded_batch_size, cycle.context_tokens)
    widths = (cycle.num_steps, cycle.num_draft_tokens)
    groups: list[Iterable[float | None]] = [counts, widths]
    groups += [times.values() for times in (cycle.stage_us, cycle.graph_us) if times]
    groups += [values for values in (cycle.draft_steps_us, cycle.correct_drafts) if values]
    groups += [values for values in (cycle.collectives_us or {}).values() if values]
    for group in groups:
        for number in group:
            if number is not None and not 0 <= number < _TOO_LARGE:
                return False
    return True


def _named_rank(path: Path) -> int:
    found = _RANK_IN_NAME.search(path.name)
    return int(found[1]) if found else 0


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _time_us(value: object) -> float | None:
    """Return a time of the header; None for what can be none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        time_us = float(value)
    except OverflowError:
        return None
    return time_us if 0 <= time_us < _TOO_LARGE else None
