"""Collectives of the draft at a group size that was not run: which algorithm, how often, how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from toolkit.model.calibrated_forwards import (
    CalibratedDraft,
    all_reduce_algorithms,
    forward_at,
    named_algorithms,
    wire_us,
)
from toolkit.model.collective_costs import DRAFT_PHASES, phase_wire_us
from toolkit.model.terms import Setting
from toolkit.schema.cost import CollectiveCost, HostCalibration

_UNLIKE = 1.5  # times the calibrated wire time, or less than one over it: worth a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What the user supposes of all-reduces: how long each takes in us, then times a factor."""

    allreduce_us: float | None = None
    allreduce_scale: float | None = None

    def wire_us(self, wire_us: float, draft: CalibratedDraft) -> float:
        """Return a draft's wire time under the supposition; its gathers keep their share of it."""
        if not draft.collectives:
            return wire_us
        scale = 1.0 if self.allreduce_scale is None else self.allreduce_scale
        gathers = wire_us * draft.all_gathers / draft.collectives
        if self.allreduce_us is not None:
            return draft.all_reduces * self.allreduce_us * scale + gathers
        return (wire_us - gathers) * scale + gathers


NO_WHAT_IF = WhatIf()


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithms:
    """Which of a calibration's all-reduces the draft uses, and how much longer they take than calibrated."""

    names: tuple[str, ...]
    factor: float
    note: str | None = None


def carried(value: float, here: float, there: float, least: float = 0.0) -> tuple[float, float]:
    """Return what a measured value is elsewhere by the calibrated ratio and by the difference, in order."""
    ratio = value * there / here
    ends = (ratio, max(value + there - here, least * ratio))
    return min(ends), max(ends)


def draft_algorithms(
    costs: Sequence[CollectiveCost],
    at: Setting,
    calibration: HostCalibration,
    here: CalibratedDraft,
    tp_size: int | None,
) -> Algorithms:
    """Return the algorithm that explains the wire times best: the draft's own, else those of verify.

    Where neither was measured every algorithm of the calibration is possible.
    """
    own = sum(phase_wire_us(costs, phase, at) for phase in DRAFT_PHASES)
    if own > 0 and here.wires_us:
        return _nearest(own, here.wires_us, _named(costs, DRAFT_PHASES))
    target = _target_wires(calibration, at, tp_size)
    verify = phase_wire_us(costs, "verify", at)
    if verify > 0 and target:
        return _nearest(verify, target, _named(costs, ("verify",)))
    every = dict.fromkeys(one.algorithm for one in calibration.collectives if one.op == "all_reduce")
    return Algorithms(names=tuple(every), factor=1.0, note=_any_of(tuple(every)))


def _any_of(names: Sequence[str]) -> str:
    return (
        "the runs time no collective by which to tell the all-reduce algorithm, so the draft's is any of "
        f"{', '.join(names) or 'none'}"
    )


def _named(costs: Sequence[CollectiveCost], phases: Sequence[str]) -> str | None:
    names = [cost.algorithm for cost in costs if cost.phase in phases and "reduce" in cost.op]
    return next((name for name in names if name), None)


def _nearest(measured: float, calibrated: Mapping[str, float], named: str | None) -> Algorithms:
    among = [name for name in named_algorithms(named, calibrated) if calibrated[name] > 0] or list(calibrated)
    best = min(among, key=lambda name: abs(log(measured / max(calibrated[name], 1e-3))))
    factor = measured / max(calibrated[best], 1e-3)
    note = None
    if 1 / _UNLIKE < factor < 1:
        factor = 1.0  # a kernel is shorter than the time it adds to a graph
    if not 1 / _UNLIKE < factor < _UNLIKE:
        note = f"the runs' collectives take {factor:.1f} times what {best} took in the calibration"
    return Algorithms(names=(best,), factor=factor, note=note)


def _target_wires(calibration: HostCalibration, at: Setting, tp_size: int | None) -> dict[str, float]:
    """Return what verify's collectives take by each algorithm, {} where none was calibrated."""
    if tp_size is None or tp_size < 2:
        return {}
    forward = forward_at(calibration, "verify", tp_size, at.batch_size * at.num_draft_tokens, at)
    if forward is None:
        return {}
    found = {
        name: wire_us(calibration, name, tp_size, forward)
        for name in all_reduce_algorithms(calibration, tp_size)
    }
    return {name: wire for name, wire in found.items() if wire}


def wire_ends(
    measured_us: float, algorithms: Algorithms, here: CalibratedDraft, there: CalibratedDraft
) -> tuple[float, float] | None:
    """Return the least and the longest wire time of the draft elsewhere; None where no latency is known.

    One GPU exchanges nothing. What was measured is carried over; where nothing was (from one GPU), it is
    between the calibrated time and that with the factor by which other collectives differed.
    """
    if not there.collectives:
        return 0.0, 0.0
    ends: list[float] = []
    for name in algorithms.names:
        if name not in there.wires_us:
            continue
        if measured_us > 0 and here.wires_us.get(name):
            ends += carried(measured_us, here.wires_us[name], there.wires_us[name])
        else:
            ends += [there.wires_us[name], there.wires_us[name] * algorithms.factor]
    return (min(ends), max(ends)) if ends else None
