"""One question at several batch sizes: a forecast for each that has an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolkit.errors import UndeterminedError
from toolkit.recommend.answer import predict
from toolkit.recommend.schedule import asked_group
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Forecast, Question


def forecasts_by_batch(
    model: CostModel, question: Question, batch_sizes: Sequence[int] = ()
) -> tuple[Forecast, ...]:
    """Return forecasts in order of batch size; without sizes, for those that the group's runs had.

    Sizes without a determined answer are left out; UndeterminedError, that of the first, where all are.
    """
    group = asked_group(model, question)
    sizes = batch_sizes or sorted({cell.batch_size for cell in group.cells})
    found: list[Forecast] = []
    first_error: UndeterminedError | None = None
    for batch in sizes:
        try:
            found.append(predict(model, replace(question, batch_size=batch, scenarios=None)))
        except UndeterminedError as error:
            first_error = first_error or error
    if not found and first_error is not None:
        raise first_error
    return tuple(found)
