"""Rows asked for by name, each in its own group, batch, context and acceptance."""

from __future__ import annotations

from dataclasses import replace

from toolkit.errors import UndeterminedError
from toolkit.forecast.acceptance import Acceptance, acceptance_of
from toolkit.forecast.candidates import Drawn, Forecaster
from toolkit.forecast.draft_tp import draft_tp_candidates
from toolkit.forecast.group_choice import chosen_group
from toolkit.forecast.situation import Situation, draft_tokens, overlap_of, padded_batch, situation_of
from toolkit.forecast.what_if import forecaster_for
from toolkit.model.cell import group_shape
from toolkit.model.terms import Setting
from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.forecast import Question, Scenario


def scenario_candidates(
    model: CostModel, question: Question
) -> tuple[list[Drawn], Acceptance | None, Drawn, tuple[str, ...], GroupModel]:
    """Return the rows' forecasts, the acceptance used, plain decoding as in the first row, notes, group."""
    assert question.scenarios
    drawn: list[Drawn] = []
    first: tuple[Acceptance | None, Drawn, GroupModel] | None = None
    notes: dict[str, None] = {}
    for row in question.scenarios:
        group = _group_of(model, question, row)
        situation = situation_of(group, question)
        acceptance, said = _acceptance(group, question, situation, row)
        forecaster, more = forecaster_for(group, question, acceptance, model.seed)
        batch = row.batch_size or situation.batch_size
        at = _setting(group, situation, row, batch)
        drawn.append(_drawn(forecaster, at, batch, row.draft_tp))
        notes |= dict.fromkeys((*said, *more))
        if first is None:
            first = (acceptance, _plain(forecaster, at, batch), group)
    assert first is not None
    return drawn, first[0], first[1], tuple(notes), first[2]


def _group_of(model: CostModel, question: Question, row: Scenario) -> GroupModel:
    """Return the group of a row; its own names count only where there is a choice."""
    several = len(model.groups) > 1
    drafts = any(group.other_drafts for group in model.groups)
    return chosen_group(
        model,
        engine=question.engine or (row.engine if several else None),
        model_name=question.model_name or (row.model if several else None),
        gpu=question.gpu or (row.gpu if several else None),
        tp_size=question.tp_size or (row.tp_size if several else None),
        draft_model=question.draft_model or (row.draft_model if drafts else None),
        plain=row.num_steps == 0,
    )


def _drawn(forecaster: Forecaster, at: Setting, batch: int, draft_tp: int | None) -> Drawn:
    """Return a row's forecast, with its draft at the TP it names where that is another than was run."""
    sizes = () if draft_tp is None else (draft_tp,)
    elsewhere = draft_tp_candidates(forecaster, [at], sizes, batch)
    return elsewhere[0] if elsewhere else forecaster.drawn(at, batch)


def _setting(group: GroupModel, situation: Situation, row: Scenario, batch: int) -> Setting:
    topk = 1 if row.num_steps == 0 else row.topk or (situation.topk if row.num_draft_tokens is None else 1)
    width = row.num_draft_tokens or draft_tokens(group, row.num_steps, topk)
    return Setting(
        num_steps=row.num_steps,
        num_draft_tokens=1 if row.num_steps == 0 else width,
        topk=topk,
        batch_size=padded_batch(group, batch, row.num_steps),
        context_tokens=row.context_tokens or situation.context_tokens,
        overlap=overlap_of(group, row.num_steps),
        shape=group_shape(group),
    )


def _plain(forecaster: Forecaster, at: Setting, batch: int) -> Drawn:
    overlap = overlap_of(forecaster.group, 0)
    size = padded_batch(forecaster.group, batch, 0)
    plain = replace(at, num_steps=0, num_draft_tokens=1, topk=1, batch_size=size, overlap=overlap)
    return forecaster.drawn(plain, batch)


def _acceptance(
    group: GroupModel, question: Question, situation: Situation, row: Scenario
) -> tuple[Acceptance | None, tuple[str, ...]]:
    """Return the row's own accept length, else the question's, else none with a note."""
    if row.accept_length is not None and row.num_steps > 0:
        own = replace(
            question,
            accept_rate=None,
            accept_by_position=None,
            accept_length=row.accept_length,
            at_num_draft_tokens=row.num_draft_tokens or row.num_steps + 1,
        )
        return acceptance_of(group, own, situation), ()
    try:
        made = acceptance_of(group, question, situation)
    except UndeterminedError:
        if question.accept_rate is not None or question.accept_length is not None:
            raise
        return None, ("no acceptance is known, so the rows have cycle times but no throughput",)
    return made, made.notes
