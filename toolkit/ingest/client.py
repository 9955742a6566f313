"""client.json: the load that was driven (toolkit.client/1)."""

from __future__ import annotations

import math
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.json_files import read_json_object, record_of, write_record
from toolkit.schema.client import CLIENT_SCHEMA, ClientResult, RequestCount


def read_client(path: Path) -> ClientResult:
    """Return the load of a run; BadInputError names the key that cannot be."""
    found = record_of(read_json_object(path, CLIENT_SCHEMA), ClientResult, path)
    _require(found.batch_size is None or found.batch_size >= 1, path, "batch_size", found.batch_size)
    _require(
        found.prompt_tokens is None or found.prompt_tokens >= 0, path, "prompt_tokens", found.prompt_tokens
    )
    for place, repeat in enumerate(found.repeats):
        good = math.isfinite(repeat.seconds) and repeat.seconds > 0
        _require(good, path, f"repeats[{place}].seconds", repeat.seconds)
        _require(repeat.output_tokens >= 0, path, f"repeats[{place}].output_tokens", repeat.output_tokens)
    for place, request in enumerate(found.requests):
        _check_request(request, path, f"requests[{place}]")
    if found.totals is not None:
        _check_request(found.totals, path, "totals")
    return found


def write_client(path: Path, result: ClientResult) -> None:
    """Write client.json, whole or not at all."""
    write_record(path, result, CLIENT_SCHEMA)


def _check_request(request: RequestCount, path: Path, place: str) -> None:
    for name in ("output_tokens", "verify_cycles", "num_correct_drafts", "num_proposed_drafts"):
        value = getattr(request, name)
        _require(value is None or value >= 0, path, f"{place}.{name}", value)
    least = min(request.correct_drafts_histogram, default=0)
    _require(least >= 0, path, f"{place}.correct_drafts_histogram", least)
    proposed, correct = request.num_proposed_drafts, request.num_correct_drafts
    within = proposed is None or correct is None or correct <= proposed
    _require(within, path, f"{place}.num_correct_drafts", f"{correct} of {proposed} proposed")


def _require(good: bool, path: Path, key: str, value: object) -> None:
    if not good:
        raise BadInputError(f"{path}: {key} is {value}, which cannot be; correct that key")
