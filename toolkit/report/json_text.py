"""Records as JSON, the same for every command: one object, numbers finite, keys as named."""

from __future__ import annotations

from typing import Any

import msgspec


def json_text(record: Any) -> str:
    """Return a record (or plain dict) as one line of JSON."""
    return msgspec.json.encode(record).decode()
