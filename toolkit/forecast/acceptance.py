"""What the acceptance given means for a group, and accept lengths at every step count."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from toolkit.analysis.accept_rate import (
    RateConvention,
    accept_length_from_rate,
    log_rate,
    readings,
)
from toolkit.errors import UndeterminedError, UsageError
from toolkit.forecast.situation import Situation, draft_tokens
from toolkit.forecast.wording import steps_text
from toolkit.model.acceptance_curve import AcceptLengths, Given, accept_lengths, children_per_step
from toolkit.model.terms import Setting
from toolkit.schema.cost import GroupModel
from toolkit.schema.forecast import AcceptanceUsed, Question

_MOST_DRAFT_TOKENS = 128  # the widest published tree has 64
_NO_READINGS: dict[str, float | None] = {"log": None, "draft": None, "conditional": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What was given, how it was read, and notes. `given` None: the measured curve as it is."""

    used: AcceptanceUsed
    given: Given | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The speculative setting an acceptance belongs to."""

    num_steps: int
    num_draft_tokens: int
    topk: int
    notes: tuple[str, ...] = ()


def acceptance_of(group: GroupModel, question: Question, situation: Situation) -> Acceptance:
    """Return the acceptance of a question, or of the group's own runs when none is given."""
    if question.accept_by_position is not None:
        return _by_position(group, question)
    if question.accept_length is not None:
        place = _place(group, question, situation)
        return _from_length(group, question.accept_length, place)
    if question.accept_rate is not None:
        return _from_rate(group, question, _place(group, question, situation))
    return _own(group)


def lengths_for(
    group: GroupModel, acceptance: Acceptance, at: Setting, draws: int, seed: int
) -> AcceptLengths:
    """Return accept lengths up to the steps of a setting, for its width."""
    children = children_per_step(at.num_steps, at.num_draft_tokens, at.topk)
    return accept_lengths(group.curve, acceptance.given, at.num_steps, at.topk, draws, seed, children)


def _place(group: GroupModel, question: Question, situation: Situation) -> _Place:
    """Return which setting a length or rate is of: as said, the only step count asked, or as run."""
    width = question.at_num_draft_tokens
    if width is not None and width > _MOST_DRAFT_TOKENS:
        raise UsageError(
            f"--at-num-draft-tokens {width}: no engine verifies more than {_MOST_DRAFT_TOKENS} tokens of a "
            "request; give the draft tokens of the runs"
        )
    asked = [steps for steps in situation.steps if steps > 0]
    if width is not None:
        if width < 2:
            raise UsageError(
                f"--at-num-draft-tokens {width}: the root counts, so speculation has at least 2; "
                "give the draft tokens of the runs"
            )
        for setting in group.settings:
            if setting.num_draft_tokens == width:
                return _Place(num_steps=setting.num_steps, num_draft_tokens=width, topk=setting.topk)
        return _Place(num_steps=width - 1, num_draft_tokens=width, topk=1)
    if question.steps is not None and len(asked) == 1 and len(question.steps) == 1:
        tokens = draft_tokens(group, asked[0], situation.topk)
        notes = _of_other_width(group, asked[0], tokens)
        return _Place(num_steps=asked[0], num_draft_tokens=tokens, topk=situation.topk, notes=notes)
    if not group.settings:
        raise UndeterminedError(
            "the fitted runs hold no speculative run, so the draft tokens that the acceptance belongs to are "
            "not known: give --at-num-draft-tokens"
        )
    most = group.settings[0]
    notes = ()
    if len({setting.num_draft_tokens for setting in group.settings}) > 1:
        notes = (
            f"acceptance taken as that of {most.num_steps} steps and {most.num_draft_tokens} draft tokens, "
            "the speculative setting of most fitted cycles; --at-num-draft-tokens changes it",
        )
    return _Place(
        num_steps=most.num_steps, num_draft_tokens=most.num_draft_tokens, topk=most.topk, notes=notes
    )


def _of_other_width(group: GroupModel, steps: int, tokens: int) -> tuple[str, ...]:
    """Return a warning where acceptance is read as that of a width that no fitted run had."""
    widths = [setting.num_draft_tokens for setting in group.settings]
    if not widths or tokens in widths:
        return ()
    return (
        f"acceptance taken as that of {steps_text(steps)} and {tokens} draft tokens, the only step count "
        f"asked for, but the fitted runs had {widths[0]}: if it is theirs, give --at-num-draft-tokens "
        f"{widths[0]}",
    )


def _convention(group: GroupModel) -> RateConvention | None:
    if group.rate_convention == "length/tokens":
        return "length/tokens"
    return "correct/proposed" if group.rate_convention == "correct/proposed" else None


def _checked_length(length: float, place: _Place) -> float:
    most = place.num_steps + 1
    if not isfinite(length):
        raise UsageError(f"accept length {length:g} is no number of tokens; give one such as 2.5")
    if length < 1:
        raise UsageError(
            f"accept length {length:g} is below 1, but the bonus token alone makes 1: "
            "give tokens per cycle, bonus included"
        )
    if length > most + 1e-9:
        raise UsageError(
            f"accept length {length:g} is more than {place.num_steps} steps can give ({most}): "
            "give the draft tokens it was measured at as --at-num-draft-tokens"
        )
    return length


def _source(group: GroupModel) -> str:
    """Return where the acceptance of other step counts comes from: measured runs, or public heads."""
    return "prior" if group.curve is None else "measured"


def _from_length(group: GroupModel, length: float, place: _Place) -> Acceptance:
    _checked_length(length, place)
    return _acceptance(group, length, "length", length, _readings_of_length(group, length, place), place)


def _readings_of_length(group: GroupModel, length: float, place: _Place) -> dict[str, float | None]:
    """Return the readings of the rate that a log would print for this length."""
    convention = _convention(group)
    printed = log_rate(length, place.num_draft_tokens, convention or "correct/proposed")
    return dict(_NO_READINGS) if printed is None else _readings(min(printed, 1.0), place, convention)


def _from_rate(group: GroupModel, question: Question, place: _Place) -> Acceptance:
    assert question.accept_rate is not None
    rate, convention = question.accept_rate, _convention(group)
    length = accept_length_from_rate(
        rate, question.rate_kind, place.num_draft_tokens, convention, num_steps=place.num_steps
    )
    _checked_length(length, place)
    return _acceptance(group, rate, question.rate_kind, length, _readings(rate, place, convention), place)


def _readings(rate: float, place: _Place, convention: RateConvention | None) -> dict[str, float | None]:
    return readings(rate, place.num_draft_tokens, convention, num_steps=place.num_steps)


def _acceptance(
    group: GroupModel,
    given: float,
    kind: str,
    length: float,
    read: dict[str, float | None],
    place: _Place,
) -> Acceptance:
    used = AcceptanceUsed(
        given=given,
        kind=kind,
        accept_length=length,
        source=_source(group),
        readings=read,
        num_steps=place.num_steps,
        num_draft_tokens=place.num_draft_tokens,
        convention=group.rate_convention,
    )
    shape = Given(
        accept_length=length,
        num_steps=place.num_steps,
        topk=place.topk,
        children=children_per_step(place.num_steps, place.num_draft_tokens, place.topk),
    )
    return Acceptance(used=used, given=shape, notes=place.notes)


def _by_position(group: GroupModel, question: Question) -> Acceptance:
    """Return the acceptance of S_j: the share of cycles that kept draft j, whatever came before."""
    shares, width = question.accept_by_position or (), question.at_num_draft_tokens
    if width is not None and len(shares) > width - 1:
        raise UsageError(
            f"--accept-by-position has {len(shares)} positions where {width} draft tokens, root included, "
            f"leave {width - 1}; leave out --at-num-draft-tokens or the last positions"
        )
    before = 1.0
    for position, share in enumerate(shares, start=1):
        if not 0 <= share <= 1:
            raise UsageError(
                f"--accept-by-position: {share:g} at position {position} is not between 0 and 1; "
                "give shares of cycles"
            )
        if share > before:
            raise UsageError(
                f"--accept-by-position rises to {share:g} at position {position}; it is kept only "
                "when those before it are, so give unconditional shares"
            )
        before = share
    length = 1 + sum(shares)
    place = _Place(num_steps=len(shares), num_draft_tokens=len(shares) + 1, topk=1)
    used = AcceptanceUsed(
        given=None,
        kind="by position",
        accept_length=length,
        source="given",
        readings=_readings_of_length(group, length, place),
        num_steps=place.num_steps,
        num_draft_tokens=place.num_draft_tokens,
        convention=group.rate_convention,
    )
    return Acceptance(used=used, given=Given(by_position=shares), notes=())


def _own(group: GroupModel) -> Acceptance:
    """Return the acceptance of the fitted runs themselves; simulated acceptance is none."""
    if group.curve is not None:
        steps, length = len(group.curve.kept), _curve_length(group)
        place = _Place(num_steps=steps, num_draft_tokens=steps + 1, topk=1)
        used = AcceptanceUsed(
            given=None,
            kind=None,
            accept_length=length,
            source="measured",
            readings=_readings_of_length(group, length, place),
            num_steps=steps,
            num_draft_tokens=steps + 1,
            convention=group.rate_convention,
        )
        return Acceptance(used=used, given=None, notes=())
    for setting in group.settings:
        if setting.accept_length is not None:
            place = _Place(
                num_steps=setting.num_steps, num_draft_tokens=setting.num_draft_tokens, topk=setting.topk
            )
            made = _from_length(group, setting.accept_length, place)
            kind = "" if setting.acceptance_kind == "real" else ", as real: nothing marks it as simulated"
            note = (
                f"no acceptance given: the fitted runs' own accept length {setting.accept_length:.2f} at "
                f"{steps_text(setting.num_steps)} is taken{kind}"
            )
            return Acceptance(used=made.used, given=made.given, notes=(note,))
    simulated = any(setting.acceptance_kind == "simulated" for setting in group.settings)
    why = "the fitted runs' acceptance is simulated" if simulated else "the fitted runs hold no acceptance"
    raise UndeterminedError(
        f"{why}: give --accept-rate, --accept-length or --accept-by-position of your own traffic"
    )


def _curve_length(group: GroupModel) -> float:
    """Return tau at the most steps the curve holds: hazards multiply, as caps may differ."""
    assert group.curve is not None
    length, survival = 1.0, 1.0
    for kept, at_risk in zip(group.curve.kept, group.curve.at_risk, strict=True):
        survival *= kept / at_risk if at_risk else 0.0
        length += survival
    return length
