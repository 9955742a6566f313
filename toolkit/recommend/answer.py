"""A question to a whole forecast: candidates, baseline, break-even, recommendation, draft TP."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace

from toolkit.analysis.accept_rate import check_rate
from toolkit.errors import UndeterminedError, UsageError
from toolkit.forecast.acceptance import acceptance_of
from toolkit.forecast.candidates import Drawn, Forecaster, with_p_best
from toolkit.forecast.draft_tp import draft_tp_candidates
from toolkit.forecast.draft_tp_answer import draft_tp_answer
from toolkit.forecast.group_choice import chosen_group, group_text
from toolkit.forecast.scenarios import scenario_candidates
from toolkit.forecast.situation import Situation, overlap_of, padded_batch, setting_for, situation_of
from toolkit.forecast.what_if import forecaster_for
from toolkit.forecast.wording import step_list_text, steps_text
from toolkit.model.after_run import one_step, unseen
from toolkit.model.cell import group_shape
from toolkit.model.fitted import Fitted
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting, cycle_vector
from toolkit.recommend.decision import recommend
from toolkit.schema.cost import CostModel, GroupModel, NextRun
from toolkit.schema.forecast import (
    AcceptanceUsed,
    Baseline,
    BreakEven,
    Candidate,
    Forecast,
    Question,
    Recommendation,
)

_OTHER_BATCH = "only batch"  # how `cycle_at` marks a batch that a single other one cannot tell of
_NO_ACCEPTANCE = AcceptanceUsed(
    given=None,
    kind=None,
    accept_length=None,
    source=None,
    readings={"log": None, "draft": None, "conditional": None},
)


def predict(model: CostModel, question: Question) -> Forecast:
    """Return the forecast for a question.

    UndeterminedError when nothing that was asked for is determined (see `Question.anyway`), when several
    groups fit, or when no acceptance is known; UsageError for values that cannot be.
    """
    if question.accept_rate is not None:
        check_rate(question.accept_rate)  # no group could make sense of it, so none is asked for first
    return _ranked(model, question) if question.scenarios is None else _scenarios(model, question)


def _ranked(model: CostModel, question: Question) -> Forecast:
    """Return every step count of one server, ranked, and what to do."""
    group = chosen_group(
        model,
        engine=question.engine,
        model_name=question.model_name,
        gpu=question.gpu,
        tp_size=question.tp_size,
        draft_model=question.draft_model,
    )
    situation = situation_of(group, question)
    acceptance = acceptance_of(group, question, situation)
    forecaster, notes = forecaster_for(group, question, acceptance, model.seed)
    settings = [setting_for(group, situation, steps) for steps in situation.steps]
    drawn = [forecaster.drawn(at, situation.batch_size) for at in settings]
    plain = forecaster.drawn(setting_for(group, situation, 0), situation.batch_size)
    if not question.anyway and not any(one.candidate.determined for one in drawn):
        raise _undetermined(group, forecaster.fitted, drawn)
    decided = recommend(
        _compared(drawn, plain, forecaster, situation, question),
        group,
        current_steps=question.current_steps,
        anyway=question.anyway,
    )
    decided, drawn = _placed(decided, drawn, plain, forecaster, situation, question)
    chances = with_p_best(drawn)
    others = draft_tp_candidates(forecaster, settings, question.draft_tp, situation.batch_size)
    candidates = [replace(one.candidate, p_best=chance) for one, chance in zip(drawn, chances, strict=True)]
    return Forecast(
        inputs=_inputs(group, situation, question),
        acceptance=acceptance.used,
        candidates=(*candidates, *(one.candidate for one in others)),
        baseline=_baseline(plain),
        break_even_accept_length=tuple(
            _break_even(one, plain) for one in (*drawn, *others) if one.candidate.num_steps > 0
        ),
        recommendation=decided,
        draft_tp=draft_tp_answer(
            forecaster,
            _draft_setting(group, situation, decided, candidates),
            question.draft_tp,
        ),
        warnings=(*group.warnings, *situation.notes, *acceptance.notes, *notes),
    )


def _compared(
    drawn: Sequence[Drawn], plain: Drawn, forecaster: Forecaster, situation: Situation, question: Question
) -> list[Drawn]:
    """Return the candidates, with plain decoding and the current steps even when not asked for."""
    extra = []
    steps = {one.candidate.num_steps for one in drawn}
    if 0 not in steps:
        extra.append(plain)
    if question.current_steps is not None and question.current_steps not in {*steps, 0}:
        at = setting_for(forecaster.group, situation, question.current_steps)
        extra.append(forecaster.drawn(at, situation.batch_size))
    return [*drawn, *extra]


def _placed(
    decided: Recommendation,
    drawn: list[Drawn],
    plain: Drawn,
    forecaster: Forecaster,
    situation: Situation,
    question: Question,
) -> tuple[Recommendation, list[Drawn]]:
    """Return candidates that hold the recommended one, which may be plain decoding or the current steps."""
    compared = _compared(drawn, plain, forecaster, situation, question)
    if decided.candidate is None or decided.candidate < len(drawn):
        return decided, drawn
    return replace(decided, candidate=len(drawn)), [*drawn, compared[decided.candidate]]


def _undetermined(group: GroupModel, fitted: Fitted, drawn: Sequence[Drawn]) -> UndeterminedError:
    batch = drawn[0].candidate.batch_size
    other = next((text for one in drawn for text in one.candidate.extrapolated if _OTHER_BATCH in text), None)
    if other:
        why, settle = other, f"runs at batch {batch} would settle it"
    else:
        asked = [_setting_of(group, one.candidate) for one in drawn]
        why, settle = _why_open(group, fitted, asked, drawn), _settling(group, fitted, asked)
    return UndeterminedError(
        f"the runs of {group_text(group)} do not determine "
        f"{step_list_text([one.candidate.num_steps for one in drawn])} at batch "
        f"{batch}: {why}; {settle} (--anyway shows the range)"
    )


def _setting_of(group: GroupModel, candidate: Candidate) -> Setting:
    return Setting(
        num_steps=candidate.num_steps,
        num_draft_tokens=candidate.num_draft_tokens,
        topk=candidate.topk,
        batch_size=padded_batch(group, candidate.batch_size, candidate.num_steps),
        context_tokens=candidate.context_tokens,
        overlap=overlap_of(group, candidate.num_steps),
        shape=group_shape(group),
    )


def _why_open(group: GroupModel, fitted: Fitted, asked: Sequence[Setting], drawn: Sequence[Drawn]) -> str:
    """Return why: a step's cost, terms that trade for each other, or what the forecast itself says."""
    pairs, now = group.identifiability.confounded, unseen(fitted)
    speculative = any(at.num_steps > 0 for at in asked) and "verify_us" in fitted.columns
    if speculative and now.holds(one_step(now.columns, asked[0])):
        return "what one more step costs is open (draft_forward_us and verify_token_us together)"
    if pairs:
        return f"{pairs[0][0]} and {pairs[0][1]} cannot be told apart"
    return next((text for one in drawn for text in one.candidate.extrapolated[:1]), "too few runs")


def _settling(group: GroupModel, fitted: Fitted, asked: Sequence[Setting]) -> str:
    """Return what a next run would do for the step counts asked, found by adding it to the design."""
    if not group.next_runs:
        return "add runs"
    now = unseen(fitted)
    settled = []
    for run in group.next_runs:
        then = now.after(_setting_of_run(group, run))
        settled.append([at.num_steps for at in asked if not then.holds(cycle_vector(then.columns, at))])
    best = max(range(len(settled)), key=lambda index: (len(settled[index]), -index))
    run = group.next_runs[best]
    text = f"a run with {steps_text(run.num_steps)} at batch {run.batch_size}"
    if not settled[best]:
        return f"take {text} next"
    what = "it" if len(settled[best]) == len(asked) else step_list_text(settled[best])
    return f"{text} would settle {what}"


def _setting_of_run(group: GroupModel, run: NextRun) -> Setting:
    return Setting(
        num_steps=run.num_steps,
        num_draft_tokens=run.num_steps + 1,
        topk=1,
        batch_size=padded_batch(group, run.batch_size, run.num_steps),
        context_tokens=run.context_tokens,
        overlap=overlap_of(group, run.num_steps),
        shape=group_shape(group),
    )


def _baseline(plain: Drawn) -> Baseline:
    return Baseline(
        tok_s=plain.candidate.tok_s,
        cycle_ms=plain.candidate.cycle_ms,
        determined=plain.candidate.determined,
    )


def _break_even(one: Drawn, plain: Drawn) -> BreakEven:
    """Return T_speculative / T_plain; only its range where a cycle is not determined."""
    steps, cycle, step = one.candidate.num_steps, one.cycle, plain.cycle
    tp = one.candidate.draft_tp
    if step.value is None or cycle.lo is None or step.lo is None or step.hi is None:
        return BreakEven(num_steps=steps, accept_length=None, draft_tp=tp)
    lo = cycle.lo / step.value
    hi = None if cycle.hi is None else cycle.hi / step.value
    known = cycle.determined and plain.candidate.determined and cycle.value is not None
    value = (cycle.value or 0.0) / step.value if known else None
    return BreakEven(num_steps=steps, accept_length=value, lo=lo, hi=hi, draft_tp=tp)


def _draft_setting(
    group: GroupModel, situation: Situation, decided: Recommendation, candidates: Sequence[Candidate]
) -> Setting | None:
    """Return the cycle whose draft is discussed: the recommended one, else the one most runs had."""
    if decided.candidate is not None and decided.candidate < len(candidates):
        steps = candidates[decided.candidate].num_steps
        if steps > 0:
            return setting_for(group, situation, steps)
    return setting_for(group, situation, group.settings[0].num_steps) if group.settings else None


def _inputs(group: GroupModel, situation: Situation, question: Question) -> dict[str, object]:
    """Return what was asked and what was assumed, for the reader of the JSON."""
    asked = asdict(question)
    asked.pop("scenarios")
    return {
        **asked,
        "engine": group.engine,
        "model_name": group.model,
        "gpu": group.gpu,
        "tp_size": group.tp_size,
        "draft_model": group.draft_model,
        "other_drafts": list(group.other_drafts),
        "batch_size": situation.batch_size,
        "context_tokens": situation.context_tokens,
        "steps": list(situation.steps),
        "topk": situation.topk,
        "draft_tp": list(question.draft_tp),
    }


def _chances(drawn: Sequence[Drawn], places: Sequence[Hashable]) -> list[float | None]:
    """Return for each row how often it is the fastest of those at its place."""
    chances: list[float | None] = [None] * len(drawn)
    for place in dict.fromkeys(places):
        rows = [index for index, other in enumerate(places) if other == place]
        for index, chance in zip(rows, with_p_best([drawn[index] for index in rows]), strict=True):
            chances[index] = chance
    return chances


def _scenarios(model: CostModel, question: Question) -> Forecast:
    """Return exactly the rows asked for, in order; without acceptance their cycles alone."""
    if not question.scenarios:
        raise UsageError("--scenarios holds no row; give rows with num_steps")
    drawn, used, plain, notes, group = scenario_candidates(model, question)
    places = [
        (row.engine, row.model, row.gpu, row.tp_size, one.candidate.batch_size, one.candidate.context_tokens)
        for row, one in zip(question.scenarios, drawn, strict=True)
    ]
    candidates = tuple(
        replace(one.candidate, p_best=chance, row=row.row)
        for one, chance, row in zip(drawn, _chances(drawn, places), question.scenarios, strict=True)
    )
    if not question.anyway and not any(one.candidate.determined for one in drawn):
        raise _undetermined(group, fitted_of(group, model.seed), drawn)
    if len(set(places)) == 1:
        decided = recommend(
            [*drawn, plain], group, current_steps=question.current_steps, anyway=question.anyway
        )
    else:
        decided = recommend([], group, current_steps=None, anyway=False)
        decided = replace(
            decided, why="the rows are of several servers, batches or contexts, so they do not compete"
        )
    if decided.candidate is not None and decided.candidate >= len(candidates):
        decided = replace(decided, candidate=None)
    situation = situation_of(group, question)
    forecaster, _ = forecaster_for(group, question, None, model.seed)
    return Forecast(
        inputs={**_inputs(group, situation, question), "scenarios": len(candidates)},
        acceptance=used.used if used is not None else _NO_ACCEPTANCE,
        candidates=candidates,
        baseline=_baseline(plain),
        break_even_accept_length=tuple(
            _break_even(one, plain) for one in drawn if one.candidate.num_steps > 0
        ),
        recommendation=decided,
        draft_tp=draft_tp_answer(forecaster, _draft_setting(group, situation, decided, candidates), ()),
        warnings=(*group.warnings, *notes),
    )
