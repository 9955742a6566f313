"""Records as JSON, the same for every command: one object, numbers finite, keys as named."""

from __future__ import annotations

from typing import Any

import msgspec


def json_text(record: Any) -> str:
    """Return a record (or plain dict) as one line of JSON.

    Names of files may hold bytes that are no text; those are replaced.
    """
    try:
        return msgspec.json.encode(record).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_printable(msgspec.to_builtins(record))).decode()


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return {key: _printable(item) for key, item in value.items()} if isinstance(value, dict) else value
