"""Facts and suppositions of the user applied to a fit: verify's share, all-reduce time."""

from __future__ import annotations

from toolkit.errors import BadInputError, UndeterminedError, UsageError
from toolkit.forecast.acceptance import Acceptance
from toolkit.forecast.candidates import Forecaster
from toolkit.forecast.situation import setting_for, situation_of
from toolkit.forecast.wording import steps_text
from toolkit.model.cell import setting_of
from toolkit.model.collective_costs import is_allreduce, scaled
from toolkit.model.draft_wires import WhatIf
from toolkit.model.fitted import Fitted
from toolkit.model.parts import pinned, verify_share_at
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting
from toolkit.schema.cost import GroupModel
from toolkit.schema.forecast import Question

_DETERMINED = 0.02  # a range of shares narrower than this leaves nothing to be told
_TOLERATED = 0.1  # by how much a share that is told may differ from one that the runs determine


def forecaster_for(
    group: GroupModel, question: Question, acceptance: Acceptance | None, seed: int
) -> tuple[Forecaster, tuple[str, ...]]:
    """Return what forecasts of a group need after the what-ifs, and notes on them."""
    fitted = fitted_of(group, seed)
    costs = group.collectives
    notes: list[str] = []
    held: float | None = None
    if question.allreduce_us is not None or question.allreduce_scale is not None:
        if not any(is_allreduce(cost) for cost in costs):
            raise UndeterminedError(
                "the fitted runs hold no all-reduce matched over ranks, so its time cannot be changed: "
                "add a kernel trace of every rank, or spans in which every rank timed its collectives"
            )
        if any(cost.source == "spans" for cost in costs):
            notes.append(
                "all-reduces were timed in spans, which do not tell all-gathers from them: both are changed"
            )
        costs = scaled(costs, question.allreduce_us, question.allreduce_scale)
    if question.verify_share is not None:
        free = fitted
        fitted, note = _pinned(group, free, question, question.verify_share)
        held = None if fitted is free else question.verify_share
        notes += note
    made = Forecaster(
        group=group,
        fitted=fitted,
        costs=costs,
        acceptance=acceptance,
        verify_share=held,
        what_if=WhatIf(allreduce_us=question.allreduce_us, allreduce_scale=question.allreduce_scale),
    )
    return made, tuple(notes)


def _pinned(group: GroupModel, fitted: Fitted, question: Question, share: float) -> tuple[Fitted, list[str]]:
    """Return the fit with verify at `share` of the cycle of the setting most cycles had, and a note."""
    if not 0 < share <= 1:
        raise UsageError(f"--verify-share {share:g} is not between 0 and 1; give a fraction of the cycle")
    if not group.settings:
        return fitted, ["--verify-share says nothing here: the fitted runs hold no speculative cycle"]
    most, situation = group.settings[0], situation_of(group, question)
    cells = [cell for cell in group.cells if cell.num_steps == most.num_steps and cell.topk == most.topk]
    at = setting_of(cells[0]) if cells else setting_for(group, situation, most.num_steps)
    if not len(fitted.vertices):
        _refuse_contradiction(fitted, at, share, bool(cells) and cells[0].host_bound)
        return fitted, ["--verify-share left aside: the fitted runs determine the split themselves"]
    seen = [(setting_of(cell), cell.cycle_us if cell.host_bound else None) for cell in group.cells]
    steps = {*situation.steps, question.current_steps or 0, most.num_steps} - {0}
    asked = [setting_for(group, situation, step) for step in sorted(steps)]
    made = pinned(fitted, seen, at, share, asked)
    if made.high - made.low < _DETERMINED and made.low - _TOLERATED <= share <= made.high + _TOLERATED:
        return fitted, ["--verify-share left aside: the fitted runs determine verify's share themselves"]
    if made.fitted is None:
        raise BadInputError(_contradicts(share, at, made.low, made.high))
    return made.fitted, [f"verify pinned to {share:.0%} of the cycle of {steps_text(at.num_steps)}, as given"]


def _refuse_contradiction(fitted: Fitted, at: Setting, share: float, host_bound: bool) -> None:
    """Raise BadInputError where the runs determine a share that is far from the one given."""
    own = verify_share_at(fitted, at, host_bound)
    if abs(own - share) > _TOLERATED:
        raise BadInputError(_contradicts(share, at, own, own))


def _contradicts(share: float, at: Setting, low: float, high: float) -> str:
    spread = f"{low:.0%} to {high:.0%}" if high - low > _DETERMINED else f"{(low + high) / 2:.0%}"
    return (
        f"--verify-share {share:g} contradicts the fitted runs: they leave verify {spread} of the cycle of "
        f"{steps_text(at.num_steps)} at batch {at.batch_size}; give a share in that range or leave it out"
    )
