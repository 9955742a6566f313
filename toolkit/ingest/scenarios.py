"""Rows of a table asked for as scenarios: measurements.csv without results."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.measurements import read_measurements
from toolkit.schema.forecast import Scenario
from toolkit.schema.measurement import Measurement


def read_scenarios(path: Path) -> tuple[tuple[Scenario, ...], tuple[str, ...]]:
    """Return the rows in order and sentences on damage.

    A row that cannot be read is an error here (BadInputError): the answer has exactly the rows asked for.
    """
    if not path.exists():
        raise BadInputError(f"{path} does not exist; give a table with the columns of measurements.csv")
    rows, damage = read_measurements(path)
    if damage:
        raise BadInputError(f"{damage[0]}: every row of --scenarios needs an answer, so correct it")
    return tuple(_scenario(path, row) for row in rows), damage


def _scenario(path: Path, row: Measurement) -> Scenario:
    steps = row.num_steps
    if steps is None and row.num_draft_tokens is not None and (row.topk or 1) == 1:
        steps = row.num_draft_tokens - 1
    if steps is None:
        raise BadInputError(
            f"{path}, line {row.row}: num_steps is empty; give the step count, 0 for plain decoding"
        )
    return Scenario(
        row=row.row,
        engine=row.engine,
        model=row.model,
        gpu=row.gpu,
        draft_model=row.draft_model,
        tp_size=row.tp_size,
        draft_tp=row.draft_tp,
        num_steps=steps,
        num_draft_tokens=row.num_draft_tokens,
        topk=row.topk,
        batch_size=row.batch_size,
        context_tokens=row.context_tokens,
        accept_length=row.accept_length,
    )
