"""The draft on fewer or more GPUs: what it could gain at most, and what an engine can be set to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.forecast.candidates import Drawn, Forecaster, drawn_from
from toolkit.forecast.flags import draft_tp_limits
from toolkit.forecast.situation import too_far
from toolkit.forecast.wording import steps_text
from toolkit.model.cycle_time import CycleForecast, cycle_at, run_spread
from toolkit.model.parts import CycleParts, parts_at
from toolkit.model.terms import Setting, Vector
from toolkit.schema.forecast import DraftTpAnswer
from toolkit.units import ms_from_us

_WIDE = 0.05  # a draft share known to within this is known
_NOTHING = 0.005  # below it a gain rounds to 0 %
_EDGE = 0.05  # of a range: run spread and model error at its ends


def draft_tp_candidates(
    forecaster: Forecaster, settings: Sequence[Setting], sizes: Sequence[int], batch_size: int
) -> list[Drawn]:
    """Return a candidate for each speculative setting at each draft TP that was not measured.

    Compute shrinks or grows by at most the ratio of GPUs, and by nothing at least: weights shard,
    launches do not. Collectives vanish on one GPU; on fewer or more they lie between nothing, what
    they are, and their ratio.
    """
    measured = forecaster.group.draft_tp
    if measured is None:
        return []
    made = []
    for size in sizes:
        for at in settings:
            if size == measured or at.num_steps == 0:
                continue
            before = cycle_at(forecaster.fitted, at, forecaster.costs)
            if before.value is None:
                continue
            cycle = _elsewhere(parts_at(forecaster.fitted, at, forecaster.costs), measured, size, before)
            made.append(drawn_from(forecaster, at, batch_size, cycle, draft_tp=size))
    return made


def _elsewhere(parts: CycleParts, measured: int, size: int, before: CycleForecast) -> CycleForecast:
    ratio = measured / size
    least = parts.draft * min(ratio, 1.0)
    most = parts.draft * max(ratio, 1.0)
    if size == 1:
        wires = (0.0, 0.0)
    elif size < measured:
        wires = (0.0, parts.draft_wire)
    else:
        wires = (parts.draft_wire, parts.draft_wire * size / measured)
    if not parts.draft_collectives and size < measured:
        least = np.zeros_like(parts.draft)  # its collectives were not told from its compute
    lo = float(parts.with_draft(least, wires[0]).min()) * (1 - _EDGE)
    hi = float(parts.with_draft(most, wires[1]).max()) * (1 + _EDGE)
    value = float(np.sqrt(lo * hi))
    place = np.linspace(0.0, 1.0, len(before.expected)) if before.expected is not None else np.zeros(1)
    drawn = np.exp(np.log(lo) + place * np.log(hi / lo))
    return CycleForecast(
        value=value,
        lo=lo,
        hi=hi,
        expected=drawn,
        new_run=drawn,
        determined=False,
        extrapolated=(*before.extrapolated, f"draft TP {size} was not measured"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    low: float
    high: float
    most_gain: float
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
    bound = bool(free[most] > low.cycle[most] - low.draft[most] - low.draft_wire)
    return _Shares(
        low=float(shares.min()),
        high=float(shares.max()),
        most_gain=float(gains[most]),
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
        join = "; " if shares.most_gain < _NOTHING else ", so "
        why = f"the draft is {_share(shares.high)} of a cycle of {steps_text(at.num_steps)}{join}{free}"
    kept = f"the draft stays at TP{measured}" if measured else "the draft stays where it is"
    if measured != 1 or any(size != 1 for size in wanted):
        why = f"{why}; {kept}: {limits}"
    return DraftTpAnswer(
        recommendation=measured,
        break_even_allreduce_us=_break_even(parts, measured),
        why=why,
        draft_share=shares.high if shares.high - shares.low <= _WIDE or verify_share is not None else None,
        most_gain=shares.most_gain,
    )


def _share(share: float) -> str:
    return "less than 1%" if 0 < share < _NOTHING else f"{share:.0%}"


def _free(shares: _Shares) -> str:
    """Return what a free draft gains, and that it is the host that ends the gain where it is."""
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
