"""Forecasts to one recommendation: a step count, off, no change, or "cannot tell"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.forecast.candidates import Drawn
from toolkit.forecast.situation import too_far
from toolkit.forecast.wording import signed_percent, step_list_text, steps_text
from toolkit.schema.cost import GroupModel
from toolkit.schema.forecast import Action, Interval, Recommendation

LEAST_GAIN = 0.02  # below it two settings differ by less than two starts of one server
_LEAST_CHANCE = 0.8
_FLAT = 0.01  # most optima are flat: fewer steps hold less memory and fail more gently
_NO_GAIN = Interval(value=None, lo=None, hi=None)


def recommend(
    drawn: Sequence[Drawn], group: GroupModel, *, current_steps: int | None, anyway: bool
) -> Recommendation:
    """Return what to do among the candidates that the data determines (all with `anyway`).

    A setting is changed only for an expected gain of 2 % or more that has a chance of 80 % to be more
    than 2 %: against the current setting if it is given, else against plain decoding. Beyond 4 times
    the longest context or largest batch run nothing is decided without `anyway`.
    """
    far = None if anyway or not drawn else _too_far(drawn[0], group)
    if far is not None:
        return Recommendation(action="cannot tell", candidate=None, gain=_NO_GAIN, why=far)
    usable = [
        i for i, one in enumerate(drawn) if one.tok_s is not None and (anyway or one.candidate.determined)
    ]
    open_steps = [one.candidate.num_steps for one in drawn if not one.candidate.determined]
    ending = ""
    if open_steps and not anyway:
        verb = "is" if open_steps in ([0], [1]) else "are"
        ending = f"; {step_list_text(open_steps)} {verb} not determined by the fitted runs{_next_run(group)}"
    if not usable:
        return _cannot("no candidate's throughput is determined by the fitted runs", group)
    best = _best(drawn, usable)
    against = _reference(drawn, usable, best, current_steps)
    if against is None:
        only = drawn[best].candidate
        verb, it = ("are", "them") if only.num_steps > 1 else ("is", "it")
        return _cannot(
            f"only {steps_text(only.num_steps)} {verb} determined, and nothing determined stands against "
            f"{it}",
            group,
        )
    gain, chance = _gain(drawn[best], drawn[against])
    action = _action(drawn, best, against, gain, chance, current_steps)
    chosen = best if action in ("use", "turn speculation off") else _kept(drawn, best, against, action)
    why = _why(drawn, best, against, gain, chance, action) + _instead(drawn, best, usable, chosen)
    return Recommendation(
        action=action,
        candidate=chosen,
        gain=gain,
        why=why + ending,
        relative_to=steps_text(drawn[against].candidate.num_steps),
    )


def _best(drawn: Sequence[Drawn], usable: Sequence[int]) -> int:
    """Return the fastest; of speculative settings within 1 % of it a measured one, with the fewest steps."""
    fastest = _fastest(drawn, usable)
    if drawn[fastest].candidate.num_steps == 0:
        return fastest
    flat = [
        i
        for i in usable
        if drawn[i].candidate.num_steps > 0 and _value(drawn[i]) >= (1 - _FLAT) * _value(drawn[fastest])
    ]
    return min(
        flat,
        key=lambda i: (
            bool(drawn[i].candidate.extrapolated),
            drawn[i].candidate.num_steps,
            -_value(drawn[i]),
        ),
    )


def _fastest(drawn: Sequence[Drawn], usable: Sequence[int]) -> int:
    return max(usable, key=lambda i: (_value(drawn[i]), -drawn[i].candidate.num_steps))


def _instead(drawn: Sequence[Drawn], best: int, usable: Sequence[int], chosen: int) -> str:
    """Return why the best is not the fastest of the table, where it is not and is what is named."""
    fastest = _fastest(drawn, usable)
    if fastest == best or chosen != best:
        return ""
    one, other = drawn[best].candidate, drawn[fastest].candidate
    single = one.num_steps == 1
    how = ""
    if one.num_steps < other.num_steps:
        how = f" and {'drafts' if single else 'draft'} less"
    if other.extrapolated and not one.extrapolated:
        how += ", and nothing in that forecast is beyond what was measured"
    return (
        f"; {steps_text(other.num_steps)} would be the fastest at {_speed(drawn[fastest])} tok/s, but "
        f"{steps_text(one.num_steps)} {'is' if single else 'are'} within 1 % of it{how}"
    )


def _too_far(one: Drawn, group: GroupModel) -> str | None:
    far = too_far(group, one.candidate.batch_size, one.candidate.context_tokens)
    if far is None:
        return None
    return f"{far}, so the runs do not decide it: take runs nearer to it (--anyway answers all the same)"


def _cannot(reason: str, group: GroupModel) -> Recommendation:
    why = reason + _next_run(group)
    return Recommendation(action="cannot tell", candidate=None, gain=_NO_GAIN, why=why)


def _next_run(group: GroupModel) -> str:
    """Return which run to take next, as the end of a sentence."""
    run = next(iter(group.next_runs), None)
    return "" if run is None else f": run {steps_text(run.num_steps)} at batch {run.batch_size} next"


def _reference(drawn: Sequence[Drawn], usable: Sequence[int], best: int, current: int | None) -> int | None:
    """Return what a gain is measured against: current, else plain, else the best speculative setting."""
    measured_tp = [i for i in usable if i != best or current is not None]
    if current is not None:
        return next((i for i in measured_tp if drawn[i].candidate.num_steps == current), None)
    others = [i for i in usable if i != best]
    if drawn[best].candidate.num_steps > 0:
        plain = next((i for i in others if drawn[i].candidate.num_steps == 0), None)
        if plain is not None:
            return plain
    return max(others, key=lambda i: _value(drawn[i])) if others else None


def _value(one: Drawn) -> float:
    return one.candidate.tok_s.value or 0.0


def _gain(best: Drawn, against: Drawn) -> tuple[Interval, float]:
    """Return the gain over the reference with its interval, and the chance that it is more than 2 %.

    Where one of the two is not determined, the interval is all that the two ranges allow.
    """
    assert best.tok_s is not None and against.tok_s is not None
    ratios = best.tok_s / against.tok_s - 1
    value = _value(best) / _value(against) - 1
    if _open(best, against):
        lo, hi = _ratio_ends(best.candidate.tok_s, against.candidate.tok_s)
        lo, hi = (0.0, 0.0) if best is against else (lo - 1, hi - 1)
    else:
        lo, hi = (float(end) for end in np.quantile(ratios, [0.05, 0.95]))
    return Interval(value=value, lo=min(lo, value), hi=max(hi, value)), float((ratios > LEAST_GAIN).mean())


def _open(*compared: Drawn) -> bool:
    return not all(one.candidate.determined for one in compared)


def _ratio_ends(over: Interval, under: Interval) -> tuple[float, float]:
    """Return the least and the largest ratio of two ranges."""
    assert over.lo is not None and over.hi is not None and under.lo is not None and under.hi is not None
    return over.lo / under.hi, over.hi / under.lo


def _action(
    drawn: Sequence[Drawn], best: int, against: int, gain: Interval, chance: float, current: int | None
) -> Action:
    worth = gain.value is not None and gain.value >= LEAST_GAIN and chance >= _LEAST_CHANCE
    if best == against or not worth:
        return "no change" if current is not None else "tie"
    return "turn speculation off" if drawn[best].candidate.num_steps == 0 else "use"


def _kept(drawn: Sequence[Drawn], best: int, against: int, action: Action) -> int:
    """Return the setting to stay at: the current one, or of two that tie the one with fewer steps."""
    if action == "no change":
        return against
    return min(best, against, key=lambda i: drawn[i].candidate.num_steps)


def _why(
    drawn: Sequence[Drawn], best: int, against: int, gain: Interval, chance: float, action: Action
) -> str:
    one, other = drawn[best], drawn[against]
    if best == against:
        if _open(one):
            return f"{_said(one)}: the middle of that range is already the highest"
        return f"{_said(one)} is already the fastest that is determined"
    compared = f"{_said(one)} against {_said(other)}"
    if action in ("no change", "tie"):
        if _open(one, other):
            return f"{compared}: {_gain_range(gain)}, so the runs do not say that a change pays"
        return (
            f"{compared}: {gain.value or 0.0:+.1%}, with a chance of {chance:.0%} to be more than 2 %, "
            "which is too little to change a server for"
        )
    if action == "turn speculation off":
        return _loss(one, other, gain)
    if _open(one, other):
        return f"{compared}: {_gain_range(gain)}"
    return (
        f"{compared}: {signed_percent(gain.value)} ({signed_percent(gain.lo)} to {signed_percent(gain.hi)})"
    )


def _loss(plain: Drawn, speculative: Drawn, gain: Interval) -> str:
    """Return by how much speculation loses to plain decoding."""
    candidate = speculative.candidate
    lose = "loses" if candidate.num_steps == 1 else "lose"
    if _open(plain, speculative) and (gain.lo or 0.0) < 0:
        lose += " over most of the range"
    return (
        f"{steps_text(candidate.num_steps)} at accept length {candidate.accept_length:.2f} {lose} to plain "
        f"decoding: {_speed(speculative)} against {_speed(plain)} tok/s; "
        f"break-even is {_break_even(plain, speculative)} tokens a cycle"
    )


def _gain_range(gain: Interval) -> str:
    return f"between {signed_percent(gain.lo)} and {signed_percent(gain.hi)}"


def _break_even(plain: Drawn, speculative: Drawn) -> str:
    if _open(plain, speculative):
        lo, hi = _ratio_ends(speculative.candidate.cycle_ms, plain.candidate.cycle_ms)
        return f"between {lo:.2f} and {hi:.2f}"
    return f"{(speculative.cycle.value or 0.0) / (plain.cycle.value or 1.0):.2f}"


def _said(one: Drawn) -> str:
    candidate = one.candidate
    length = f" at accept length {candidate.accept_length:.2f}" if candidate.num_steps else ""
    return f"{steps_text(candidate.num_steps)}{length}, {_speed(one)} tok/s"


def _speed(one: Drawn) -> str:
    """Return tokens per second; of a range both ends, as its middle is no forecast."""
    speed = one.candidate.tok_s
    if _open(one):
        return f"between {_plain_number(speed.lo)} and {_plain_number(speed.hi)}"
    return _plain_number(speed.value)


def _plain_number(speed: float | None) -> str:
    return f"{speed or 0.0:.1f}" if (speed or 0.0) < 1000 else f"{speed:.0f}"
