"""A step count for each batch size: one answer after another, each against the one before it."""

from __future__ import annotations

from dataclasses import replace

from toolkit.errors import UndeterminedError
from toolkit.forecast.group_choice import chosen_group
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.forecast import Question


def asked_group(model: CostModel, question: Question) -> GroupModel:
    """Return the fitted group that a question is about."""
    return chosen_group(
        model,
        engine=question.engine,
        model_name=question.model_name,
        gpu=question.gpu,
        tp_size=question.tp_size,
        draft_model=question.draft_model,
    )


def schedule(model: CostModel, question: Question) -> list[tuple[int, int]]:
    """Return (batch size, steps) for each batch size that was run, where the answer is determined.

    Batch sizes come in order, and the steps of one are the current ones of the next: they change only
    where the gain is no tie (at least 2 %, with a chance of 80 % to be more), so that a server whose
    load moves between two batch sizes does not switch for nothing. Chains only, as engines' schedules are.
    """
    made: list[tuple[int, int]] = []
    current = question.current_steps
    for batch in sorted({cell.padded_batch_size for cell in asked_group(model, question).cells}):
        asked = replace(question, batch_size=batch, topk=1, scenarios=None, current_steps=current)
        steps = _steps(model, asked)
        if steps is None and current is not None:
            steps = _steps(model, replace(asked, current_steps=None))  # the steps before are open here
        if steps is not None:
            made.append((batch, steps))
            current = steps
    if not made:
        raise UndeterminedError(
            "no measured batch size has a determined answer, so there is no schedule to write; "
            "leave --emit out to see which run would settle it"
        )
    return made


def _steps(model: CostModel, question: Question) -> int | None:
    try:
        answer = predict(model, question)
    except UndeterminedError:
        return None
    chosen = answer.recommendation.candidate
    return None if chosen is None else answer.candidates[chosen].num_steps
