"""The cycle time of a setting from a fit: point, range where the data leaves it open, and draws.

Draw i of every setting uses the same refit, so differences between settings are paired. Model error
is log-normal on top (`reach.py`): 2 % inside what was seen, 3.5 % to twice the steps, 10 % beyond.
Near measured configurations the forecast is drawn towards them (`residuals.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.model.collective_costs import cycle_wire_us, wire_doubt_us
from toolkit.model.fitted import Fitted
from toolkit.model.reach import FORM_INSIDE, FORM_NEAR, batches_of, reach
from toolkit.model.residuals import Pull, no_pull, pull_at
from toolkit.model.summed_cycle import DETERMINED, host_floor, open_share, summed_cycle
from toolkit.model.terms import Setting, Vector, cycle_vector, draft_column
from toolkit.schema.cost import CollectiveCost

_NARROW = 1.02  # an open range narrower than this is as good as a value
_HELD = 1.001  # a cycle that is shorter than a plain step by less is not marked
_OPEN = "not determined by the fitted runs"
_NORMAL_95 = 1.645
_MIX = 0.5  # Dirichlet weight of vertices: most draws lie near an edge of what is possible


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleForecast:
    """Cycle time in us. `expected` are draws of the mean cycle, `new_run` of one run's.

    Not determined: `lo` to `hi` is the range that reproduces the data, `value` its geometric
    middle; `hi` None is no upper end, and there are no draws.
    """

    value: float | None
    lo: float | None
    hi: float | None
    expected: Vector | None
    new_run: Vector | None
    determined: bool
    extrapolated: tuple[str, ...]


def cycle_at(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost] | None = None) -> CycleForecast:
    """Return the forecast of one setting, with `costs` of collectives in place of the measured ones.

    A batch that was not measured takes no less than the nearest smaller one that was, and its low end is
    above those of all smaller ones; a tree takes no less than the chain of the same steps and tokens; a
    speculative cycle takes no less than the plain step inside it, where plain decoding was run.
    """
    made = _above_others(fitted, at, costs)
    if at.num_steps == 0 or not made.determined:
        return made
    step = _above_others(fitted, replace(at, num_steps=0, num_draft_tokens=1, topk=1), costs)
    return _not_below_step(made, step)


def _not_below_step(made: CycleForecast, step: CycleForecast) -> CycleForecast:
    """Return a cycle that is nowhere below a plain step: else a speed-up would exceed the accept length."""
    if not step.determined or step.extrapolated or made.value is None or step.value is None:
        return made
    held = _not_below(made, step)
    if held.expected is not None and step.expected is not None:
        held = replace(held, expected=np.maximum(held.expected, step.expected))
    if step.value <= _HELD * made.value:
        return held
    short = f"{1 - made.value / step.value:.1%}"
    mark = f"held at the plain step in it, as the fit is {short} shorter"
    return replace(held, extrapolated=(*made.extrapolated, mark))


def _above_others(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost] | None) -> CycleForecast:
    """Return the forecast of one setting, held above those of smaller batches and of its chain."""
    made = _alone(fitted, at, costs)
    below = [batch for batch in batches_of(fitted.support, at) if batch <= at.batch_size]
    if at.num_steps > 0 and at.topk > 1 and 1 in fitted.support.topks:
        made = _not_below(made, _above_others(fitted, replace(at, topk=1), costs))
    if below and below[-1] != at.batch_size:
        smaller = [_above_others(fitted, replace(at, batch_size=batch), costs) for batch in below]
        made = _not_below(made, smaller[-1])
        least = max(smaller, key=lambda one: one.lo or 0.0)
        made = _not_below(made, replace(least, determined=False))  # what is open moves no value
    larger = [batch for batch in batches_of(fitted.support, at) if batch > at.batch_size]
    if larger and below[-1:] != [at.batch_size]:
        made = _not_above(made, _above_others(fitted, replace(at, batch_size=larger[0]), costs))
    return made


def _not_above(made: CycleForecast, other: CycleForecast) -> CycleForecast:
    """Return a forecast that is nowhere above that of a larger batch, if nothing in that is extrapolated."""
    if other.extrapolated or not (made.determined and other.determined) or None in (made.hi, other.hi):
        return made
    assert made.value and made.lo and made.hi and other.value and other.hi
    down, most = min(other.value / made.value, 1.0), other.hi
    return replace(
        made,
        value=down * made.value,
        lo=down * made.lo,
        hi=min(down * made.hi, most),
        expected=None if made.expected is None else np.minimum(down * made.expected, most),
        new_run=None if made.new_run is None else np.minimum(down * made.new_run, most),
    )


def _not_below(made: CycleForecast, other: CycleForecast) -> CycleForecast:
    """Return a forecast that is nowhere below another: moved up to its value, then cut at its low end."""
    if made.lo is None or other.lo is None:
        return made
    up = 1.0
    if made.value is not None and other.value is not None and made.determined and other.determined:
        up = max(other.value / made.value, 1.0)
    least = other.lo
    return replace(
        made,
        value=None if made.value is None else max(up * made.value, least),
        lo=max(up * made.lo, least),
        hi=None if made.hi is None else max(up * made.hi, least),
        expected=None if made.expected is None else np.maximum(up * made.expected, least),
        new_run=None if made.new_run is None else np.maximum(up * made.new_run, least),
    )


def _alone(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost] | None) -> CycleForecast:
    """Return the forecast of one setting, whatever is known of others."""
    marks, form = reach(fitted.support, at, _growth(fitted, at, costs))
    batches = batches_of(fitted.support, at)
    if not batches or (at.num_steps > 0 and "verify_us" not in fitted.columns):
        kind = "plain decoding" if at.num_steps == 0 else "speculation"
        return _nothing(None, (*marks, f"{kind} was not measured"))
    if at.draft_tp is not None and draft_column("draft_extend_us", at.draft_tp) not in fitted.columns:
        return _nothing(None, (*marks, f"draft TP {at.draft_tp} was not measured"))
    factors = _computing(fitted, at)
    wire = cycle_wire_us(fitted.costs if costs is None else costs, at)
    form = _with_doubt(form, wire_doubt_us(fitted.costs, at), fitted, factors, wire, at)
    one_batch = len(batches) == 1 and at.batch_size != batches[0]
    open_ended = at.num_steps > 1 and draft_column("draft_forward_us", at.draft_tp) not in fitted.columns
    if open_share(fitted, factors) > DETERMINED and not len(fitted.vertices):
        return _nothing(None, (*marks, _OPEN))
    ends = _ends(fitted, factors, wire, at)
    if at.num_steps == 0 and at.overlap and fitted.support.plain_overlaps == (False,):
        if "host_plain_us" not in fitted.columns:
            return _nothing(None, marks)
        host = fitted.solution[fitted.columns.index("host_plain_us")]  # hidden by the scheduler, or not
        return _open(fitted, at, (ends[0] - host, ends[1]), factors, wire, marks, form)
    if one_batch:
        ratio = at.batch_size / batches[0]
        ends = (ends[0] * min(ratio, 1.0), ends[1] * max(ratio, 1.0))
        marks = (*marks, f"only batch {batches[0]} was measured")
    if open_ended:
        return _nothing(ends[0], (*marks, "no draft forward was measured"))
    if one_batch or ends[1] > _NARROW * ends[0]:
        return _open(fitted, at, ends, factors, wire, marks, form)
    return _closed(fitted, at, factors, wire, marks, form)


def _computing(fitted: Fitted, at: Setting) -> Vector:
    """Return the factors of a cycle; a plain step beyond the knee computes as verify was seen to.

    Where no plain step was run beyond the knee, one larger than all that were is the same forward as a verify
    of as many tokens.
    """
    factors, names = cycle_vector(fitted.columns, at), fitted.columns
    if at.num_steps > 0 or "decode_compute_us" in names or "verify_compute_us" not in names:
        return factors
    most = max(fitted.support.plain_batches, default=at.batch_size)
    more = at.shape.beyond_knee(at.batch_size) - at.shape.beyond_knee(min(most, at.batch_size))
    return factors + more * np.array([float(name == "verify_compute_us") for name in names])


def _growth(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost] | None) -> float | None:
    """Return the log by which the fit's cycle grows between the batches measured around one that was not.

    Below all of them, from the one asked to the least. None above all, at one of them, and where it is open.
    """
    batches = batches_of(fitted.support, at)
    above = [batch for batch in batches if batch > at.batch_size]
    if not above or at.batch_size in batches or len(batches) < 2:
        return None
    ends = [max((batch for batch in batches if batch < at.batch_size), default=at.batch_size), above[0]]
    logs = []
    for one in (replace(at, batch_size=batch) for batch in ends):
        factors = cycle_vector(fitted.columns, one)
        if open_share(fitted, factors) > DETERMINED:
            return None
        wire = cycle_wire_us(fitted.costs if costs is None else costs, one)
        whole = summed_cycle(fitted, factors, wire, one, fitted.solution[None, :])[0]
        logs.append(float(np.log(max(whole, 1e-9))))
    return max(logs[1] - logs[0], 0.0)


def _with_doubt(
    form: float, doubt_us: float, fitted: Fitted, factors: Vector, wire: float, at: Setting
) -> float:
    """Return the model's error with that of wire times for messages larger than any that was measured."""
    if not doubt_us:
        return form
    whole = float(summed_cycle(fitted, factors, wire, at, fitted.solution[None, :])[0])
    return float(np.hypot(form, doubt_us / max(whole, 1e-9)))


def _nothing(lo: float | None, marks: tuple[str, ...]) -> CycleForecast:
    return CycleForecast(
        value=None, lo=lo, hi=None, expected=None, new_run=None, determined=False, extrapolated=marks
    )


def _ends(fitted: Fitted, factors: Vector, wire: float, at: Setting) -> tuple[float, float]:
    """Return the least and the largest cycle that reproduce the data."""
    points = [fitted.solution]
    if len(fitted.vertices) and open_share(fitted, factors) > DETERMINED:
        points = list(fitted.vertices)
    cycles = [summed_cycle(fitted, factors, wire, at, point[None, :])[0] for point in points]
    return float(min(cycles)), float(max(cycles))


def _closed(
    fitted: Fitted, at: Setting, factors: Vector, wire: float, marks: tuple[str, ...], form: float
) -> CycleForecast:
    if len(fitted.vertices) and open_share(fitted, factors) > DETERMINED:
        # open, but in too narrow a range to matter: the refits of one solution say little of it
        ends = _ends(fitted, factors, wire, at)
        value = float(np.sqrt(ends[0] * ends[1]))
        rng = np.random.default_rng([fitted.seed, 4])
        logs = fitted.noise.speculative_spread * rng.standard_normal(len(fitted.draws))
    else:
        value = float(summed_cycle(fitted, factors, wire, at, fitted.solution[None, :])[0])
        drawn = summed_cycle(fitted, factors, wire, at, fitted.draws)
        logs = np.log(np.maximum(drawn, 1e-9) / value)
    pull = pull_at(fitted, at)
    spreads = _spreads(fitted, at, value)
    value *= float(np.exp(pull.shift))
    expected, new_run = _with_errors(fitted, at, value, logs + pull.moves, form, spreads, pull)
    lo, hi = np.quantile(new_run, [0.05, 0.95])
    return CycleForecast(
        value=value,
        lo=min(float(lo), value),
        hi=max(float(hi), value),
        expected=expected,
        new_run=new_run,
        determined=True,
        extrapolated=marks,
    )


def _open(
    fitted: Fitted,
    at: Setting,
    ends: tuple[float, float],
    factors: Vector,
    wire: float,
    marks: tuple[str, ...],
    form: float,
) -> CycleForecast:
    """Return a range; its draws mix the extremes, the same mix for every setting."""
    count = len(fitted.draws)
    value = float(np.sqrt(ends[0] * ends[1]))
    if len(fitted.vertices) > 1:
        rng = np.random.default_rng([fitted.seed, 1])
        mix = rng.dirichlet(np.full(len(fitted.vertices), _MIX), size=count)
        cycles = summed_cycle(fitted, factors, wire, at, mix @ fitted.vertices)
        place = np.clip((cycles - cycles.min()) / max(float(np.ptp(cycles)), 1e-9), 0.0, 1.0)
    else:
        place = np.random.default_rng([fitted.seed, 1]).random(count)
    inside = np.log(ends[0]) + place * np.log(ends[1] / ends[0])
    spreads = _spreads(fitted, at, value)
    nothing = no_pull(count)
    expected, new_run = _with_errors(fitted, at, value, inside - np.log(value), form, spreads, nothing)
    # between plain decoding and the steps seen the range itself holds every shape the cycle can have
    bracketed = at.num_steps < max(fitted.support.steps, default=0) and len(fitted.support.plain_batches)
    error = np.hypot(FORM_INSIDE if bracketed else form, spreads[0])
    edge = np.exp(_NORMAL_95 * _scale(fitted, at, form) * error)
    return CycleForecast(
        value=value,
        lo=float(ends[0] / edge),
        hi=float(ends[1] * edge),
        expected=expected,
        new_run=new_run,
        determined=False,
        extrapolated=(*marks, _OPEN),
    )


def _with_errors(
    fitted: Fitted,
    at: Setting,
    value: float,
    logs: Vector,
    form: float,
    spreads: tuple[float, float],
    pull: Pull,
) -> tuple[Vector, Vector]:
    """Return draws of the mean cycle, and of a new run's, which differs by the run spread as well.

    Where residuals near the setting are known they take their share of the model error, of the
    misfit in the spread and of the widening for configurations never seen.
    """
    key = [fitted.seed, 2, at.num_steps, at.num_draft_tokens, at.topk, at.batch_size, at.context_tokens or 0]
    errors = np.random.default_rng(key).standard_normal((2, len(logs)))
    unknown = 1 - pull.known
    scale = 1 + (_scale(fitted, at, form) - 1) * unknown
    spread = float(np.sqrt(unknown * spreads[0] ** 2 + pull.known * spreads[1] ** 2))
    expected = scale * (logs + max(form, pull.tau) * np.sqrt(unknown) * errors[0])
    return (
        np.asarray(value * np.exp(expected)),
        np.asarray(value * np.exp(expected + scale * spread * errors[1])),
    )


def _scale(fitted: Fitted, at: Setting, form: float) -> float:
    """Return the factor that held-out configurations ask for; beyond what was seen it narrows nothing."""
    scale = fitted.noise.plain_scale if at.num_steps == 0 else fitted.noise.speculative_scale
    return scale if form <= FORM_NEAR else max(scale, 1.0)


def _spreads(fitted: Fitted, at: Setting, value: float) -> tuple[float, float]:
    """Return by how much a new run differs where nothing near was measured, and where it was.

    A host-bound cycle differs by what host-bound cycles did either way: they are of one floor, so what they
    differ by is the hosts of their servers.
    """
    near = run_spread(fitted, at)
    if at.num_steps == 0:
        return fitted.noise.plain_spread, near
    floor = host_floor(fitted, at, fitted.solution[None, :])
    if floor is not None and value <= float(floor[0]) * (1 + 1e-9):
        return fitted.noise.floor_spread, max(near, fitted.noise.floor_spread)
    return fitted.noise.speculative_spread, near


def run_spread(fitted: Fitted, at: Setting) -> float:
    """Return by how much runs of one configuration differed."""
    noise = fitted.noise
    own = noise.plain_run_spread if at.num_steps == 0 else noise.speculative_run_spread
    return noise.run_spread if own is None else own
