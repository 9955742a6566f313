"""Calibrations of hosts to what each group's forecasts need of one, and why another is not used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from toolkit.schema.calibration import Calibration, MeasuredModel
from toolkit.schema.cost import HostCalibration
from toolkit.schema.inspection import Inspection

_SIZES = {
    "layers": "layers",
    "hidden": "hidden",
    "heads": "heads",
    "kv_heads": "kv_heads",
    "vocabulary": "vocab",
}


class NamedCalibration(NamedTuple):
    """A calibration and the run folder it was read from."""

    run: str
    made: Calibration


def calibrations_of(inspection: Inspection) -> tuple[NamedCalibration, ...]:
    """Return the calibrations among the runs."""
    return tuple(
        NamedCalibration(run.run, run.calibration) for run in inspection.runs if run.calibration is not None
    )


def calibration_for(
    gpu: str | None,
    served: Iterable[Mapping[str, int]],
    tp_size: int | None,
    found: Iterable[NamedCalibration],
) -> tuple[HostCalibration | None, list[str]]:
    """Return the calibration for a group, and sentences on what of the others is not used.

    `served` are the target's sizes as its runs know them. One of another GPU says nothing here. Of several
    the one whose model differs least counts, then the one with most forwards.
    """
    found = list(found)
    same = [one for one in found if gpu is not None and one.made.gpu == gpu]
    notes = [
        f"the calibration {one.run} is of {one.made.gpu or 'an unknown GPU'} and not used"
        for one in found
        if one not in same
    ]
    if not same:
        return None, notes
    sizes = next((known for known in served if known), {})
    ranked = sorted(
        same,
        key=lambda one: (len(_differences(one.made.target, sizes)), -len(one.made.forwards)),
    )
    notes += [f"the calibration {other.run} is not used beside {ranked[0].run}" for other in ranked[1:]]
    return _taken(ranked[0], sizes, tp_size), notes


def _taken(chosen: NamedCalibration, sizes: Mapping[str, int], tp_size: int | None) -> HostCalibration:
    """Return what a group's forecasts need: every draft forward, verify's at the group's own TP."""
    made = chosen.made
    forwards = [one for one in made.forwards if one.kind.startswith("draft") or one.tp_size == tp_size]
    return HostCalibration(
        run=chosen.run,
        gpu=made.gpu or "",
        sizes=tuple(sorted({one.tp_size for one in forwards if one.kind.startswith("draft")})),
        draft=made.draft,
        forwards=tuple(forwards),
        collectives=made.collectives,
        differences=tuple(_differences(made.target, sizes)),
    )


def _differences(target: MeasuredModel | None, sizes: Mapping[str, int]) -> list[str]:
    """Return how the target that was measured differs from the one served, where both are known."""
    if target is None:
        return []
    return [
        f"{name} {getattr(target, field)} was measured, {sizes[name]} is served"
        for name, field in _SIZES.items()
        if name in sizes and sizes[name] != getattr(target, field)
    ]
