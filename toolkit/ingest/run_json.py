"""run.json: identity and settings of a run (toolkit.run/1)."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.json_files import read_json_object, record_of, write_record
from toolkit.schema.run import RUN_SCHEMA, RunInfo

# The least value that each count of a run can have; plain decoding has 0 steps and 1 token.
_LEAST = {
    "tp_size": 1,
    "draft_tp": 1,
    "num_steps": 0,
    "topk": 1,
    "num_draft_tokens": 1,
    "batch_size": 1,
    "context_tokens": 0,
    "temperature": 0,
}


def read_run_info(path: Path) -> RunInfo:
    """Return what run.json says; keys that this version does not know are left out.

    BadInputError names the file and the key for a newer schema, a wrong type or an impossible count.
    """
    found = record_of(read_json_object(path, RUN_SCHEMA), RunInfo, path)
    for name, least in _LEAST.items():
        value = getattr(found, name)
        if value is not None and not (math.isfinite(value) and value >= least):
            raise BadInputError(f"{path}: {name} is {value}, below {least}; correct that key")
    engine = found.engine.strip().lower() if found.engine else None
    return dataclasses.replace(found, engine=engine or None)


def write_run_info(path: Path, info: RunInfo) -> None:
    """Write run.json, whole or not at all."""
    write_record(path, info, RUN_SCHEMA)
