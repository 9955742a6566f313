"""The draft on fewer or more GPUs: what runs or a calibration say of it, else what it could gain at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.forecast.candidates import Drawn, Forecaster, drawn_from
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.draft_elsewhere import Elsewhere, draft_as_run, draft_elsewhere
from toolkit.model.parts import CycleParts, parts_at
from toolkit.model.terms import Setting
from toolkit.schema.cost import GroupModel

_EDGE = 0.05  # of a range, at least: run spread and model error at its ends


def elsewhere(forecaster: Forecaster, at: Setting, size: int) -> Elsewhere | None:
    """Return the cycle with its draft at another TP, None where neither runs nor a calibration tell."""
    group = forecaster.group
    if size in run_sizes(group):
        as_run = draft_as_run(forecaster.fitted, at, forecaster.costs, size)
        if as_run is not None and as_run.cycle.determined:
            return as_run
    if group.calibration is None or group.draft_tp is None:
        return None
    return draft_elsewhere(
        forecaster.fitted,
        at,
        forecaster.costs,
        group.calibration,
        sizes=(group.draft_tp, size),
        tp_size=group.tp_size,
        what_if=forecaster.what_if,
    )


def run_sizes(group: GroupModel) -> list[int]:
    """Return the draft TPs of runs that are not the group's own."""
    return sorted({cell.other_draft_tp for cell in group.cells if cell.other_draft_tp is not None})


def known_sizes(forecaster: Forecaster, wanted: Sequence[int]) -> list[int]:
    """Return the other sizes to look at: those wanted, else those run, and those calibrated that fit."""
    group = forecaster.group
    if wanted:
        return [size for size in wanted if size != group.draft_tp]
    sizes = sorted({*run_sizes(group), *(group.calibration.sizes if group.calibration else ())})
    most = group.tp_size or max(sizes, default=1)
    return [size for size in sizes if size != group.draft_tp and most % size == 0]


def draft_tp_candidates(
    forecaster: Forecaster, settings: Sequence[Setting], sizes: Sequence[int], batch_size: int
) -> list[Drawn]:
    """Return a candidate for each speculative setting at each draft TP that was not measured.

    Without a calibration of these sizes it is a range. Compute shrinks or grows by at most the ratio of
    GPUs, and by nothing at least: weights shard, launches do not. Collectives vanish on one GPU; on
    fewer or more they lie between nothing, what they are, and their ratio.
    """
    measured = forecaster.group.draft_tp
    if measured is None:
        return []
    made = []
    for size in sizes:
        for at in settings:
            if size == measured or at.num_steps == 0:
                continue
            known = elsewhere(forecaster, at, size)
            if known is not None:
                made.append(
                    drawn_from(forecaster, at, batch_size, known.cycle, draft_tp=size, draft=known.draft)
                )
                continue
            before = cycle_at(forecaster.fitted, at, forecaster.costs)
            if before.value is not None:
                cycle = _bounds(parts_at(forecaster.fitted, at, forecaster.costs), measured, size, before)
                made.append(drawn_from(forecaster, at, batch_size, cycle, draft_tp=size))
    return made


def _bounds(parts: CycleParts, measured: int, size: int, before: CycleForecast) -> CycleForecast:
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
    down, up = _edges(before)
    lo = float(parts.with_draft(least, wires[0]).min()) * down
    hi = float(parts.with_draft(most, wires[1]).max()) * up
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


def _edges(before: CycleForecast) -> tuple[float, float]:
    """Return what the ends of a range are multiplied by: no less is known than at the TP that was run."""
    if not before.determined or not before.value or before.lo is None or before.hi is None:
        return 1 - _EDGE, 1 + _EDGE
    return min(1 - _EDGE, before.lo / before.value), max(1 + _EDGE, before.hi / before.value)
