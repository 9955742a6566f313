"""Facts and suppositions of the user applied to a fit: verify's share, all-reduce time."""

from __future__ import annotations

from toolkit.errors import BadInputError, UndeterminedError, UsageError
from toolkit.forecast.acceptance import Acceptance
from toolkit.forecast.candidates import Forecaster
from toolkit.forecast.situation import padded_batch
from toolkit.model.collective_costs import is_allreduce, scaled
from toolkit.model.fitted import Fitted
from toolkit.model.parts import pinned
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting
from toolkit.schema.cost import GroupModel
from toolkit.schema.forecast import Question


def forecaster_for(
    group: GroupModel, question: Question, acceptance: Acceptance | None, seed: int
) -> tuple[Forecaster, tuple[str, ...]]:
    """Return what forecasts of a group need after the what-ifs, and notes on them."""
    fitted = fitted_of(group, seed)
    costs = group.collectives
    notes: list[str] = []
    if question.allreduce_us is not None or question.allreduce_scale is not None:
        if not any(is_allreduce(cost) for cost in costs):
            raise UndeterminedError(
                "the fitted runs hold no all-reduce matched over ranks, so its time cannot be changed: "
                "add a kernel trace of every rank"
            )
        costs = scaled(costs, question.allreduce_us, question.allreduce_scale)
    if question.verify_share is not None:
        fitted, note = _pinned(group, fitted, question.verify_share)
        notes += note
    return Forecaster(group=group, fitted=fitted, costs=costs, acceptance=acceptance), tuple(notes)


def _pinned(group: GroupModel, fitted: Fitted, share: float) -> tuple[Fitted, list[str]]:
    if not 0 < share <= 1:
        raise UsageError(f"--verify-share {share:g} is not between 0 and 1; give a fraction of the cycle")
    if not group.settings:
        return fitted, ["--verify-share says nothing here: the fitted runs hold no speculative cycle"]
    most = group.settings[0]
    cells = [cell for cell in group.cells if cell.num_steps == most.num_steps and cell.topk == most.topk]
    batch = padded_batch(group, cells[0].batch_size) if cells else 1
    at = Setting(
        num_steps=most.num_steps,
        num_draft_tokens=most.num_draft_tokens,
        topk=most.topk,
        batch_size=batch,
        context_tokens=cells[0].context_tokens if cells else None,
        overlap=group.overlap_schedule is not False,
    )
    if not len(fitted.vertices):
        return fitted, ["--verify-share left aside: the fitted runs determine the split themselves"]
    made = pinned(fitted, at, share)
    if made is None:
        raise BadInputError(
            f"--verify-share {share:g} contradicts the fitted runs at {most.num_steps} steps: "
            "no non-negative terms reproduce both; leave it out or check the runs"
        )
    return made, [f"verify pinned to {share:.0%} of the cycle of {most.num_steps} steps, as given"]
