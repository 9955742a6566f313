"""The recorded runs with a step count, or a batch size, left out: the rest is fitted and predicts it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev

from tests.benchmarks.points import Point
from toolkit.api import inspect_runs, read_runs
from toolkit.errors import UndeterminedError
from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model
from toolkit.schema.inspection import Inspection, RunReport

Group = tuple[str | None, int | None]
KINDS = ("inside", "beyond", "elsewhere too")


def recorded_groups(traces: Path) -> dict[Group, list[RunReport]]:
    """Return the inspected runs by engine and tensor-parallel size."""
    found: dict[Group, list[RunReport]] = defaultdict(list)
    for run in inspect_runs(read_runs([traces])).runs:
        found[run.engine, run.tp_size].append(run)
    return dict(found)


def left_out(runs: list[RunReport], axis: str) -> Iterator[Point]:
    """Yield each configuration of runs that are left out together: all of a step count, or of a batch size.

    The kind of a point says where it lies as seen from the rest: inside what was run, beyond it on this
    axis alone, or elsewhere too, as when no other run has its context.
    """
    mark = {"steps": "num_steps", "batch": "batch size"}[axis]
    for value in sorted({_value(run, axis) for run in runs}):
        rest = [run for run in runs if _value(run, axis) != value]
        held = [run for run in runs if _value(run, axis) == value]
        if axis == "steps" and value == 0:
            continue  # plain decoding is no step count: nothing of speculation tells it
        try:
            model = fit_cost_model(Inspection(warnings=(), runs=tuple(rest)))
            checked = check_model(model, Inspection(warnings=(), runs=tuple(held)), "rest")
        except UndeterminedError:
            continue
        for cell in checked.configurations:
            own = all(one.startswith(mark) for one in cell.extrapolated)
            yield Point(
                kind=KINDS[0] if not cell.extrapolated else KINDS[1] if own else KINDS[2],
                measured_ms=cell.measured_ms,
                value_ms=cell.predicted_ms,
                lo_ms=cell.lo_ms,
                hi_ms=cell.hi_ms,
            )


def restart_spread(runs: list[RunReport]) -> float | None:
    """Return the mean relative spread of a configuration's cycle over starts; None without repeats."""
    cycles: dict[tuple[int | None, ...], list[float]] = defaultdict(list)
    for run in runs:
        best = max(run.configurations, key=lambda one: one.cycles or 0, default=None)
        if best is not None and best.cycle_us is not None:
            about = round((best.context_tokens or 0) / 128)
            cycles[best.num_steps, best.batch_size, about].append(best.cycle_us.mean)
    spreads = [stdev(one) / fmean(one) for one in cycles.values() if len(one) > 1]
    return fmean(spreads) if spreads else None


def _value(run: RunReport, axis: str) -> int:
    found = {
        one.num_steps if axis == "steps" else one.batch_size
        for one in run.configurations
        if one.num_steps is not None and one.batch_size is not None
    }
    return max(value or 0 for value in found) if found else 0
