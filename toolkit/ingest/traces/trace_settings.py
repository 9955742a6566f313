"""What a trace says of itself beside its events: rank, group, GPU, settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from toolkit.ingest.traces.event_numbers import LATEST_NS

_RANK_IN_NAME = re.compile(r"(?:[-_.]TP[-_]?|[-_.]tp|^tp)(\d+)(?=[-_.])")
_GLOBAL_RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)(?=[-_.])")
_MOST_RANKS = 1 << 16


def settings_of(path: Path, top_level: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `RankTrace` that its file's name and the keys beside its events tell."""
    found = top_level.get("distributedInfo")
    distributed: dict[str, Any] = found if isinstance(found, dict) else {}
    return {
        "source": path.name,
        "tp_rank": _rank(path.name, distributed),
        "world_size": _world_size(distributed),
        "process_groups": _groups(distributed),
        "gpu": _gpu(top_level),
        "with_stack": bool(top_level.get("with_stack")),
    }


def base_time_ns(top_level: dict[str, Any]) -> int:
    """Return what all times of the events count from."""
    base = _integer(top_level.get("baseTimeNanoseconds")) or 0
    return base if 0 <= base < LATEST_NS else 0


def text_of(raw: bytes) -> str:
    """Return the text of a name as it is written in JSON."""
    try:
        return str(msgspec.json.decode(raw.decode("utf-8", "replace")))
    except (msgspec.DecodeError, RecursionError):
        return raw.decode("utf-8", "replace").strip('"')


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _world_size(distributed: dict[str, Any]) -> int | None:
    found = _integer(distributed.get("world_size"))
    return found if found is not None and 0 < found <= _MOST_RANKS else None


def _rank(file_name: str, distributed: dict[str, Any]) -> int:
    """The file name says which rank it is; a merged or renamed file falls back on the profiler's word."""
    for pattern in (_RANK_IN_NAME, _GLOBAL_RANK_IN_NAME):
        found = pattern.search(file_name)
        if found:
            return int(found[1])
    return _integer(distributed.get("rank")) or 0


def _groups(distributed: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    listed = distributed.get("pg_config")
    groups = []
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("ranks"), list):
            ranks = [rank for rank in entry["ranks"] if isinstance(rank, int)]
            groups.append((str(entry.get("pg_name")), str(entry.get("pg_desc")), ranks))
    return groups


def _gpu(top: dict[str, Any]) -> str | None:
    devices = top.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        name = devices[0].get("name")
        return name if isinstance(name, str) else None
    return None
