"""Where the draft should run: at the measured TP unless another surely beats it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.forecast.candidates import Forecaster
from toolkit.forecast.draft_tp import elsewhere, known_sizes
from toolkit.forecast.draft_tp_sizes import with_sizes
from toolkit.forecast.flags import draft_tp_limits
from toolkit.forecast.situation import too_far
from toolkit.forecast.wording import steps_text
from toolkit.model.cycle_time import cycle_at, run_spread
from toolkit.model.parts import CycleParts, parts_at
from toolkit.model.terms import Setting, Vector
from toolkit.schema.forecast import DraftTpAnswer
from toolkit.units import ms_from_us

_WIDE = 0.05  # a draft share known to within this is known
_NOTHING = 0.005  # below it a gain rounds to 0 %
_UNBOUNDED = 1e-6  # of a cycle, left by a free draft: its gain has no bound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    low: float
    high: float
    most_gain: float | None  # None: the draft may be all of the cycle, so nothing bounds the gain
    floor_us: float | None  # the host's floor, where it is what ends the gain of a free draft


def _shares(parts: CycleParts, run_spread: float) -> _Shares:
    """Return the draft's share of the GPU's work, and what a free draft gains at most.

    The host's floor is known to the spread between runs only: it stops a gain from that much lower.
    """
    shares = (parts.draft + parts.draft_wire) / np.maximum(parts.cycle, 1e-9)
    low = replace(parts, floor=parts.floor * (1 - run_spread))
    free = low.with_draft(0.0, 0.0)
    gains = low.total / np.maximum(free, 1e-9) - 1
    most = int(gains.argmax())
    bounded = bool(free[most] > _UNBOUNDED * low.total[most])
    bound = bool(free[most] > low.cycle[most] - low.draft[most] - low.draft_wire)
    return _Shares(
        low=float(shares.min()),
        high=float(shares.max()),
        most_gain=float(gains[most]) if bounded else None,
        floor_us=float(parts.floor[most]) if bound else None,
    )


def draft_tp_answer(forecaster: Forecaster, at: Setting | None, wanted: Sequence[int]) -> DraftTpAnswer:
    """Return the measured draft TP unless something is known to beat it, with the most it could gain."""
    group = forecaster.group
    measured = group.draft_tp
    limits = draft_tp_limits(group.engine)
    if at is None or cycle_at(forecaster.fitted, at, forecaster.costs).value is None:
        why = "no speculative cycle is known here, so nothing can be said of the draft's share of it"
        return DraftTpAnswer(recommendation=measured, break_even_allreduce_us=None, why=why)
    far = too_far(group, at.batch_size, at.context_tokens)
    if far is not None:
        why = f"{far}, so nothing is said of the draft's share there"
        return DraftTpAnswer(recommendation=measured, break_even_allreduce_us=None, why=why)
    parts = parts_at(forecaster.fitted, at, forecaster.costs)
    shares = _shares(parts, run_spread(forecaster.fitted, at))
    free = _free(shares)
    verify_share = forecaster.verify_share
    if verify_share is not None:
        held = group.settings[0].num_steps
        if at.num_steps != held:
            free = f"of {steps_text(held)} {free} at {steps_text(at.num_steps)}"
        why = f"with verify at {verify_share:.0%} of the cycle {free}, whatever the draft's TP"
    elif shares.high - shares.low > _WIDE:
        why = (
            f"the runs leave the draft anywhere from {shares.low:.0%} to {shares.high:.0%} of a cycle of "
            f"{steps_text(at.num_steps)}, so whether another TP pays cannot be told; "
            "a traced run or --verify-share settles it"
        )
    else:
        join = "; " if shares.most_gain is not None and shares.most_gain < _NOTHING else ", so "
        why = f"the draft is {_share(shares.high)} of a cycle of {steps_text(at.num_steps)}{join}{free}"
    kept = f"the draft stays at TP{measured}" if measured else "the draft stays where it is"
    others = [elsewhere(forecaster, at, size) for size in known_sizes(forecaster, wanted)]
    known = [other for other in others if other is not None]
    if not known and (measured != 1 or any(size != 1 for size in wanted)):
        why = f"{why}; {kept}: {limits}"
    answer = DraftTpAnswer(
        recommendation=measured,
        break_even_allreduce_us=_break_even(parts, measured),
        why=why,
        draft_share=shares.high if shares.high - shares.low <= _WIDE or verify_share is not None else None,
        most_gain=shares.most_gain,
    )
    return with_sizes(answer, forecaster, at, known) if known else answer


def _share(share: float) -> str:
    return "less than 1%" if 0 < share < _NOTHING else f"{share:.0%}"


def _free(shares: _Shares) -> str:
    """Return what a free draft gains, and that it is the host that ends the gain where it is."""
    if shares.most_gain is None:
        return "nothing bounds what a faster draft gains"
    if shares.most_gain < _NOTHING:
        return "a faster draft gains nothing" + (" while the host sets the cycle" if shares.floor_us else "")
    text = f"even a free draft gains at most about {shares.most_gain:.0%}"
    if shares.floor_us is not None:
        text += f", as the host's floor of {ms_from_us(shares.floor_us):.1f} ms then sets the cycle"
    return text


def _break_even(parts: CycleParts, measured: int | None) -> float | None:
    """Return the all-reduce time above which one GPU surely beats `measured` for the draft, in us.

    On one GPU its compute takes at most `measured` times as long and its collectives are gone:
    (g - 1) compute = collectives x all-reduce.
    """
    if (
        not measured
        or measured < 2
        or not parts.draft_collectives
        or float(np.ptp(parts.draft)) > _WIDE * float(parts.draft.max())
    ):
        return None
    compute: Vector = parts.draft
    return float((measured - 1) * compute.mean() / parts.draft_collectives)
