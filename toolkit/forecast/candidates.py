"""Forecasts of single settings: cycle, accept length, tokens per second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.forecast.acceptance import Acceptance, lengths_for
from toolkit.forecast.flags import reachable
from toolkit.model.acceptance_curve import AcceptLengths
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.draft_elsewhere import DraftTime, draft_time
from toolkit.model.draft_wires import NO_WHAT_IF, WhatIf
from toolkit.model.fitted import Fitted
from toolkit.model.terms import Setting, Vector
from toolkit.schema.cost import CollectiveCost, GroupModel
from toolkit.schema.forecast import Candidate, Interval
from toolkit.units import US_PER_MS, US_PER_S

ACCEPTANCE_BEYOND = "acceptance beyond"  # starts the mark of a length past the positions known
NOTHING = Interval(value=None, lo=None, hi=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A candidate with its paired draws of tokens per second (None when nothing bounds it)."""

    candidate: Candidate
    cycle: CycleForecast
    tok_s: Vector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """What forecasts of one group share: its fit, costs after the what-ifs, acceptance.

    `verify_share` is the share of the cycle that the fit was held to, None where it was not.
    """

    group: GroupModel
    fitted: Fitted
    costs: tuple[CollectiveCost, ...]
    acceptance: Acceptance | None
    verify_share: float | None = None
    what_if: WhatIf = NO_WHAT_IF

    def drawn(self, at: Setting, batch_size: int, *, lengths: AcceptLengths | None = None) -> Drawn:
        """Return the forecast of one setting for `batch_size` running requests."""
        return drawn_from(self, at, batch_size, cycle_at(self.fitted, at, self.costs), lengths)

    def lengths(self, at: Setting) -> AcceptLengths | None:
        """Return accept lengths up to the steps of a setting, None without acceptance."""
        if self.acceptance is None:
            return None
        count, seed = len(self.fitted.draws), self.fitted.seed
        return lengths_for(self.group, self.acceptance, at, count, seed)


def drawn_from(
    forecaster: Forecaster,
    at: Setting,
    batch_size: int,
    cycle: CycleForecast,
    lengths: AcceptLengths | None = None,
    draft_tp: int | None = None,
    draft: DraftTime | None = None,
) -> Drawn:
    """Return a candidate for a cycle that was forecast; `draft_tp` None is as measured, with its draft."""
    group = forecaster.group
    lengths = forecaster.lengths(at) if lengths is None and at.num_steps > 0 else lengths
    length, length_draws = _length(at, lengths, len(forecaster.fitted.draws))
    speed, speed_draws = _speed(batch_size, cycle, length, length_draws)
    other = None if draft_tp == group.draft_tp else draft_tp
    if draft_tp is None:
        draft = draft_time(forecaster.fitted, at, forecaster.costs)
    candidate = Candidate(
        num_steps=at.num_steps,
        num_draft_tokens=at.num_draft_tokens,
        topk=at.topk,
        draft_tp=group.draft_tp if draft_tp is None else draft_tp,
        batch_size=batch_size,
        context_tokens=at.context_tokens,
        accept_length=length,
        cycle_ms=interval_ms(cycle.value, cycle.lo, cycle.hi),
        tok_s=speed,
        p_best=None,
        extrapolated=(*cycle.extrapolated, *_length_marks(at, lengths)),
        reachable=reachable(group.engine, at.num_steps, at.topk, at.num_draft_tokens, other_draft_tp=other),
        determined=cycle.determined,
        draft_ms=None if draft is None else interval_ms(draft.value, draft.lo, draft.hi),
    )
    return Drawn(candidate=candidate, cycle=cycle, tok_s=speed_draws)


def _length(at: Setting, lengths: AcceptLengths | None, draws: int) -> tuple[float | None, Vector | None]:
    if at.num_steps == 0:
        return 1.0, np.ones(draws)
    if lengths is None:
        return None, None
    return float(lengths.values[at.num_steps]), lengths.draws[:, at.num_steps]


def _length_marks(at: Setting, lengths: AcceptLengths | None) -> tuple[str, ...]:
    if lengths is None or at.num_steps <= lengths.known_steps:
        return ()
    return (f"{ACCEPTANCE_BEYOND} {lengths.known_steps} steps",)


def interval_ms(value: float | None, lo: float | None, hi: float | None) -> Interval:
    """Return an interval of microseconds in milliseconds."""
    return Interval(value=_over(value), lo=_over(lo), hi=_over(hi))


def _over(us: float | None) -> float | None:
    return None if us is None else us / US_PER_MS


def _speed(
    batch_size: int, cycle: CycleForecast, length: float | None, draws: Vector | None
) -> tuple[Interval, Vector | None]:
    """Return tokens per second (batch x accept length / mean cycle) and draws of its mean."""
    if length is None or draws is None:
        return NOTHING, None
    tokens = batch_size * US_PER_S
    low, high = (float(end) for end in np.quantile(draws, [0.05, 0.95]))
    if cycle.value is None or cycle.expected is None or cycle.new_run is None:
        most = None if cycle.lo is None else tokens * high / cycle.lo
        return Interval(value=None, lo=None, hi=most), None
    value = tokens * length / cycle.value
    if cycle.determined:
        lo, hi = (float(end) for end in np.quantile(tokens * draws / cycle.new_run, [0.05, 0.95]))
    else:
        assert cycle.lo is not None and cycle.hi is not None
        lo, hi = tokens * low / cycle.hi, tokens * high / cycle.lo
    speed = Interval(value=value, lo=min(lo, value), hi=max(hi, value))
    return speed, np.asarray(tokens * draws / cycle.expected)


def with_p_best(drawn: Sequence[Drawn]) -> list[float | None]:
    """Return for each candidate how often its draw is the fastest; None where it has no draws."""
    having = [index for index, one in enumerate(drawn) if one.tok_s is not None]
    chances: list[float | None] = [None] * len(drawn)
    if not having:
        return chances
    stacked = np.array([drawn[index].tok_s for index in having])
    best = np.bincount(stacked.argmax(axis=0), minlength=len(having)) / stacked.shape[1]
    for index, chance in zip(having, best, strict=True):
        chances[index] = float(chance)
    return chances
