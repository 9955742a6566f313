"""calibration.json: what `toolkit calibrate` measured on a host (toolkit.calibration/1)."""

from __future__ import annotations

import math
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.json_files import read_json_object, record_of
from toolkit.schema.calibration import CALIBRATION_SCHEMA, Calibration, ForwardTime, Latency


def read_calibration(path: Path) -> Calibration:
    """Return a calibration; BadInputError in one sentence for what cannot be, naming its key."""
    found = record_of(read_json_object(path, CALIBRATION_SCHEMA), Calibration, path)
    for index, collective in enumerate(found.collectives):
        where = f"collectives[{index}]"
        _require_latency(path, f"{where}.latency_us", collective.latency_us)
        _require(collective.group_size >= 2, path, f"{where}.group_size", collective.group_size)
        _require(collective.message_bytes >= 0, path, f"{where}.message_bytes", collective.message_bytes)
    for index, forward in enumerate(found.forwards):
        _check_forward(path, f"forwards[{index}]", forward)
    return found


def _check_forward(path: Path, where: str, forward: ForwardTime) -> None:
    _require_latency(path, f"{where}.compute_us", forward.compute_us)
    if forward.total_us is not None:
        _require_latency(path, f"{where}.total_us", forward.total_us)
    for name in ("tp_size", "batch_size", "num_tokens"):
        value = getattr(forward, name)
        _require(value >= 1, path, f"{where}.{name}", value)
    for name in (
        "context_tokens",
        "all_reduces",
        "all_reduce_bytes",
        "all_gathers",
        "all_gather_bytes",
        "weight_bytes",
    ):
        value = getattr(forward, name)
        _require(value >= 0, path, f"{where}.{name}", value)


def _require_latency(path: Path, key: str, latency: Latency) -> None:
    for name in ("median", "p10", "p90"):
        value = getattr(latency, name)
        _require(math.isfinite(value) and value > 0, path, f"{key}.{name}", value)


def _require(good: bool, path: Path, key: str, value: object) -> None:
    if not good:
        raise BadInputError(f"{path}: {key} is {value}, which cannot be; calibrate again")
