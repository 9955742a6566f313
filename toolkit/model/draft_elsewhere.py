"""The draft at a tensor-parallel size that was not run, from a calibration of the same GPU.

Compute that was measured at m ranks is carried to s ranks in two ways, by the calibrated ratio and by the
calibrated difference. They agree where the calibrated engine is the one that runs; where they do not, the
forecast is between them and its interval holds both. Wire times are carried in the same two ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.model.calibrated_forwards import CalibratedDraft, draft_at
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.draft_wires import (
    NO_WHAT_IF,
    Algorithms,
    WhatIf,
    carried,
    draft_algorithms,
    wire_ends,
)
from toolkit.model.fitted import Fitted
from toolkit.model.parts import CycleParts, parts_at
from toolkit.model.reach import FORM_INSIDE
from toolkit.model.summed_cycle import DETERMINED, host_floor, open_share
from toolkit.model.terms import DRAFT_TERMS, Setting, Vector, cycle_vector, vector
from toolkit.schema.cost import CollectiveCost, HostCalibration

_FORM, _FORM_WIRE = 0.04, 0.08  # of compute and of wire times that are carried over
_OTHER_MODEL = 0.15  # where the model measured has other sizes than the one served
_PER_DOUBLING = 0.05  # of tokens or context beyond those measured
_LEAST_SHARE = 0.2  # of the ratio's: a difference can leave less, but no forward is free
_OPEN_FACTOR = 2.0  # where the fit leaves the draft open it is within this factor of the calibrated one
_PAST_ENDS = 0.15  # of a range, so that a 90 % interval holds its ends: one of them is often the truth
_SOME_US = 1e-3
Ends = tuple[Vector, Vector]  # the smaller first


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTime:
    """Draft and extend of one cycle in us, collectives included; `lo` to `hi` as of a new run.

    `compute` and `wire` hold the value first, then draws that are paired with those of cycles.
    """

    value: float
    lo: float
    hi: float
    compute: Vector
    wire: Vector

    @property
    def total(self) -> Vector:
        """Compute and wire."""
        return self.compute + self.wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A cycle with its draft at another size, beside the one of most runs.

    `there` and `here` are what a calibration says of the two, None where both were run.

    `slowdown` is that cycle over the measured one, its value first, then its draws. `apart`: wire times
    were told from compute, else they are inside it. `notes` say what was assumed.
    """

    size: int
    cycle: CycleForecast
    slowdown: Vector
    draft: DraftTime
    before: DraftTime
    there: CalibratedDraft | None
    here: CalibratedDraft | None
    apart: bool
    notes: tuple[str, ...]


def draft_time(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost]) -> DraftTime | None:
    """Return the draft's time as it was run; None in plain decoding and where the fit has no draft."""
    factors = vector(fitted.columns, DRAFT_TERMS, at)
    if at.num_steps == 0 or not factors.any():
        return None
    parts = parts_at(fitted, at, costs)
    if _is_open(fitted, factors):
        compute = _placed(fitted, float(np.min(parts.draft)), float(np.max(parts.draft)))
    else:
        compute = np.concatenate([[fitted.solution @ factors], fitted.draws @ factors])
    return _timed(fitted, at, compute, np.full(len(compute), parts.draft_wire))


def _is_open(fitted: Fitted, factors: Vector) -> bool:
    return bool(len(fitted.vertices)) and open_share(fitted, factors) > DETERMINED


def _placed(fitted: Fitted, low: float, high: float) -> Vector:
    """Return the geometric middle of a range and draws over it, at the same places in every range."""
    low, high = max(low, _SOME_US), max(high, _SOME_US)
    place = np.random.default_rng([fitted.seed, 1]).random(len(fitted.draws))
    return np.asarray(low * (high / low) ** np.concatenate([[0.5], place]))


def _timed(fitted: Fitted, at: Setting, compute: Vector, wire: Vector) -> DraftTime:
    """Return the time with the interval of a new run."""
    compute = np.maximum(compute, _SOME_US)
    total = compute + wire
    rng = np.random.default_rng([fitted.seed, 7])
    error = np.hypot(FORM_INSIDE, fitted.noise.speculative_spread) * rng.standard_normal(len(total) - 1)
    lo, hi = (float(end) for end in np.quantile(total[1:] * np.exp(error), [0.05, 0.95]))
    value = float(total[0])
    return DraftTime(value=value, lo=min(lo, value), hi=max(hi, value), compute=compute, wire=wire)


def draft_elsewhere(
    fitted: Fitted,
    at: Setting,
    costs: Sequence[CollectiveCost],
    calibration: HostCalibration,
    *,
    sizes: tuple[int, int],
    tp_size: int | None,
    what_if: WhatIf = NO_WHAT_IF,
) -> Elsewhere | None:
    """Return the cycle with its draft at the second of `sizes`, the first being as measured.

    `costs` are those after `what_if`. None where the calibration lacks a size or the fit the cycle.
    """
    here, there = (draft_at(calibration, size, at) for size in sizes)
    before, now = cycle_at(fitted, at, costs), draft_time(fitted, at, costs)
    if here is None or there is None or now is None or before.expected is None or before.value is None:
        return None
    parts = parts_at(fitted, at, fitted.costs)
    apart = parts.draft_collectives > 0 or not here.collectives
    algorithms = draft_algorithms(fitted.costs, at, calibration, here, tp_size)
    now = _narrowed(fitted, at, now, here.compute_us if apart else _with_wires(here, algorithms)[1])
    own_wire = parts.draft_wire
    if apart and what_if == NO_WHAT_IF:
        now, own_wire = _booked_alike(fitted, at, now, own_wire, here, algorithms)
    ends = _ends(now.compute, own_wire, algorithms, here, there, apart=apart)
    if ends is None:
        return None
    low, high = (np.full(len(now.wire), what_if.wire_us(end, there)) for end in ends[1])
    compute = _between(fitted, sizes, ends[0], _form(calibration, here, there))
    later = _timed(fitted, at, compute, _between(fitted, sizes, (low, high), _FORM_WIRE))
    slowdown = _slowdown(fitted, at, parts_at(fitted, at, costs), later.total - now.total)
    marks = (*before.extrapolated, f"draft TP {sizes[1]} by the calibration {calibration.run}")
    return Elsewhere(
        size=sizes[1],
        cycle=replace(_slowed(before, slowdown), extrapolated=marks),
        slowdown=slowdown,
        draft=later,
        before=now,
        there=there,
        here=here,
        apart=apart,
        notes=_notes(calibration, algorithms, sizes, apart=apart),
    )


def draft_as_run(fitted: Fitted, at: Setting, costs: Sequence[CollectiveCost], size: int) -> Elsewhere | None:
    """Return the cycle with its draft at a size that some of the runs had; None where they do not tell."""
    other = replace(at, draft_tp=size)
    before, after = cycle_at(fitted, at, costs), cycle_at(fitted, other, costs)
    here, there = draft_time(fitted, at, costs), draft_time(fitted, other, costs)
    if before.expected is None or after.expected is None or here is None or there is None:
        return None
    assert before.value is not None and after.value is not None
    return Elsewhere(
        size=size,
        cycle=after,
        slowdown=np.concatenate([[after.value / before.value], after.expected / before.expected]),
        draft=there,
        before=here,
        there=None,
        here=None,
        apart=parts_at(fitted, at, costs).draft_collectives > 0 or not float(np.max(here.wire)),
        notes=(),
    )


def _notes(
    calibration: HostCalibration, algorithms: Algorithms, sizes: tuple[int, int], *, apart: bool
) -> tuple[str, ...]:
    notes = [f"the calibrated model is another one ({'; '.join(calibration.differences)})"]
    notes = notes if calibration.differences else []
    if algorithms.note and (max(sizes) > 1 and not (apart and sizes[1] == 1)):
        notes.append(algorithms.note)
    if not apart:
        notes.append("the runs do not tell the draft's collectives from its compute")
    return tuple(notes)


def _booked_alike(
    fitted: Fitted, at: Setting, now: DraftTime, wire_us: float, here: CalibratedDraft, algorithms: Algorithms
) -> tuple[DraftTime, float]:
    """Return the draft's time and its wire with what only the calibration books as wire moved over to it.

    A calibrated collective includes the gap that it makes between its neighbours, the shortest kernel of a
    trace does not: there the gap is in compute. So what compute has more than calibrated and wire less (or
    the other way round) is one time in two places; the smaller of the two is moved.
    """
    calibrated = here.wires_us.get(algorithms.names[0]) if algorithms.names else None
    if not wire_us or calibrated is None:
        return now, wire_us
    more, less = now.compute - here.compute_us, calibrated - wire_us
    moved = np.where(more * less > 0, np.sign(less) * np.minimum(np.abs(more), abs(less)), 0.0)
    return _timed(fitted, at, now.compute - moved, now.wire + moved), wire_us + float(moved[0])


def _form(calibration: HostCalibration, here: CalibratedDraft, there: CalibratedDraft) -> float:
    """Return the relative error of compute that is carried over."""
    form = _OTHER_MODEL if calibration.differences else _FORM
    beyond = _PER_DOUBLING * max(here.beyond, there.beyond)
    return float(np.linalg.norm([form, here.spread / 2, there.spread / 2, beyond]))


def _narrowed(fitted: Fitted, at: Setting, now: DraftTime, calibrated_us: float) -> DraftTime:
    """Return a draft time that the fit leaves open within a factor of the calibrated one, if it can be."""
    if not _is_open(fitted, vector(fitted.columns, DRAFT_TERMS, at)):
        return now
    low, high = float(np.min(now.compute)), float(np.max(now.compute))
    low, high = max(low, calibrated_us / _OPEN_FACTOR), min(high, calibrated_us * _OPEN_FACTOR)
    return now if low >= high else _timed(fitted, at, _placed(fitted, low, high), now.wire)


def _ends(
    compute: Vector,
    wire_us: float,
    algorithms: Algorithms,
    here: CalibratedDraft,
    there: CalibratedDraft,
    *,
    apart: bool,
) -> tuple[Ends, tuple[float, float]] | None:
    """Return the ends of compute and of wire times elsewhere; None where no latency of them is known."""
    if apart:
        wires = wire_ends(wire_us, algorithms, here, there)
        return None if wires is None else (_carried(compute, here.compute_us, there.compute_us), wires)
    both = _together(compute, algorithms, here, there)
    return None if both is None else (both, (0.0, 0.0))


def _carried(compute: Vector, here_us: float, there_us: float) -> Ends:
    """Return compute elsewhere by ratio and by difference, the smaller first."""
    ends = [carried(float(value), here_us, there_us, _LEAST_SHARE) for value in compute]
    return np.array([low for low, _ in ends]), np.array([high for _, high in ends])


def _with_wires(draft: CalibratedDraft, algorithms: Algorithms) -> tuple[float, float]:
    """Return the calibrated draft with its collectives, over the algorithms: least and most."""
    wires = [draft.wires_us[name] for name in algorithms.names if name in draft.wires_us] or [0.0]
    return draft.compute_us + min(wires), draft.compute_us + max(wires)


def _together(
    compute: Vector, algorithms: Algorithms, here: CalibratedDraft, there: CalibratedDraft
) -> Ends | None:
    """Return draft times elsewhere where the one measured holds its collectives: over all algorithms."""
    lows, highs = [], []
    for name in algorithms.names:
        if name not in here.wires_us or (there.collectives and name not in there.wires_us):
            continue
        before = here.compute_us + here.wires_us[name]
        after = there.compute_us + (there.wires_us[name] if there.collectives else 0.0)
        low, high = _carried(compute, before, after)
        lows.append(low)
        highs.append(high)
    return (np.min(lows, axis=0), np.max(highs, axis=0)) if lows else None


def _between(fitted: Fitted, sizes: tuple[int, int], ends: Ends, form: float) -> Vector:
    """Return the geometric middle of the first, and for each draw a place about its ends, with an error."""
    if not ends[1].any():
        return ends[1]
    low = np.maximum(ends[0], _SOME_US)
    high = np.maximum(ends[1], low)
    rng = np.random.default_rng([fitted.seed, 6, *sizes])
    place = rng.uniform(-_PAST_ENDS, 1 + _PAST_ENDS, len(low) - 1)
    error = rng.standard_normal(len(low) - 1)
    logs = form * np.concatenate([[0.0], error]) + np.concatenate([[0.5], place]) * np.log(high / low)
    return np.asarray(low * np.exp(logs))


def _slowdown(fitted: Fitted, at: Setting, parts: CycleParts, change: Vector) -> Vector:
    """Return how many times as long a cycle takes with `change` added; the host's floor stays as it is."""
    factors = cycle_vector(fitted.columns, at)
    if _is_open(fitted, factors):
        summed, floor = np.full(len(change), np.mean(parts.cycle)), np.full(len(change), np.mean(parts.floor))
    else:
        points = np.vstack([fitted.solution, fitted.draws])
        one = fitted.vertices[0] if len(fitted.vertices) else fitted.solution
        summed = points @ factors + float(parts.cycle[0] - one @ factors)
        floors = host_floor(fitted, at, points)
        floor = np.zeros(len(change)) if floors is None else floors
    later = np.maximum(np.maximum(summed + change, _SOME_US), floor)
    return np.asarray(later / np.maximum(summed, floor))


def _slowed(before: CycleForecast, slowdown: Vector) -> CycleForecast:
    """Return a forecast that takes `slowdown` times as long, draw by draw."""
    assert before.value is not None and before.expected is not None and before.new_run is not None
    assert before.lo is not None and before.hi is not None
    value = before.value * float(slowdown[0])
    new_run = before.new_run * slowdown[1:]
    if before.determined:
        lo, hi = (float(end) for end in np.quantile(new_run, [0.05, 0.95]))
    else:
        lo, hi = before.lo * float(np.min(slowdown)), before.hi * float(np.max(slowdown))
    return replace(
        before,
        value=value,
        lo=min(lo, value),
        hi=max(hi, value),
        expected=before.expected * slowdown[1:],
        new_run=new_run,
    )
