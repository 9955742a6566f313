"""What `predict` says of each group of a model, and what can be said where it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolkit.errors import BadInputError, ToolkitError, UndeterminedError, UsageError
from toolkit.forecast.group_choice import agreeing_groups, selecting_options
from toolkit.forecast.what_if_grid import what_if_grid
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.forecast import Forecast, Question
from toolkit.schema.report import GroupAnswer

MOST_GRIDS = 12  # groups of one page that can be asked what-if; each takes about a second
_SUPPOSED_STEPS = 5  # where not even a step count is known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A forecast, the question that it answers, and the error with which the one asked was refused."""

    forecast: Forecast | None
    question: Question
    error: ToolkitError | None
    supposed: bool = False


def group_answers(model: CostModel, question: Question) -> tuple[GroupAnswer, ...]:
    """Return an answer for each group that the question selects, with a grid for the largest of many.

    UndeterminedError when no group is selected; the error itself where every group finds the question
    impossible (UsageError, BadInputError) rather than open.
    """
    chosen = agreeing_groups(
        model,
        engine=question.engine,
        model_name=question.model_name,
        gpu=question.gpu,
        tp_size=question.tp_size,
        draft_model=question.draft_model,
    )
    alone = replace(question, engine=None, model_name=None, gpu=None, tp_size=None, draft_model=None)
    told = [_told(replace(model, groups=(group,)), group, alone) for group in chosen]
    impossible = [one.error for one in told if isinstance(one.error, UsageError | BadInputError)]
    if impossible and len(impossible) == len(told):
        raise impossible[0]
    with_grid = _largest(chosen)
    return tuple(
        _answer(model, group, one, with_grid=place in with_grid)
        for place, (group, one) in enumerate(zip(chosen, told, strict=True))
    )


def _largest(groups: Sequence[GroupModel]) -> set[int]:
    """Return the places of the groups with most cells."""
    order = sorted(range(len(groups)), key=lambda place: (-len(groups[place].cells), place))
    return set(order[:MOST_GRIDS])


def _answer(model: CostModel, group: GroupModel, told: _Told, *, with_grid: bool) -> GroupAnswer:
    used = None if told.forecast is None else told.forecast.acceptance
    return GroupAnswer(
        group=group,
        forecast=told.forecast,
        refused=None if told.error is None else str(told.error),
        length_supposed=told.supposed,
        grid=what_if_grid(group, told.question, used, model.seed) if with_grid and told.forecast else None,
        selectors=selecting_options(model, group),
    )


def _told(model: CostModel, group: GroupModel, question: Question) -> _Told:
    """Return the forecast of a model of one group; where it is refused, what can be said all the same."""
    try:
        return _Told(forecast=predict(model, question), question=question, error=None)
    except (UndeterminedError, UsageError, BadInputError) as error:
        refused = error
    if isinstance(refused, UndeterminedError):
        anyway = replace(question, anyway=True)
        forecast = _forecast(model, anyway)
        if forecast is not None:
            return _Told(forecast=forecast, question=anyway, error=refused)
    supposed = _supposing(group, question)
    forecast = _forecast(model, supposed)
    return _Told(forecast=forecast, question=supposed, error=refused, supposed=True)


def _forecast(model: CostModel, question: Question) -> Forecast | None:
    try:
        return predict(model, question)
    except ToolkitError:
        return None


def _supposing(group: GroupModel, question: Question) -> Question:
    """Return the question with an accept length in the middle of what the runs' draft tokens can give."""
    width = group.settings[0].num_draft_tokens if group.settings else _SUPPOSED_STEPS + 1
    steps = group.settings[0].num_steps if group.settings else _SUPPOSED_STEPS
    return replace(
        question,
        accept_rate=None,
        accept_by_position=None,
        accept_length=1 + steps / 2,
        at_num_draft_tokens=width,
        verify_share=None,
        anyway=True,
    )
