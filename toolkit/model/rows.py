"""Cells to rows of the least squares: one for the whole cycle, one for each phase measured apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from toolkit.model.cell import Cell, Timed, setting_of
from toolkit.model.collective_costs import costs_of_cell, cycle_wire_us, phase_wire_us
from toolkit.model.columns import both_measured, phase_kind
from toolkit.model.terms import Setting, Vector, cycle_vector, phase_vector
from toolkit.schema.cost import CollectiveCost

_PHASES = ("draft", "verify", "sample", "draft_extend", "decode")
Family = Literal["plain", "speculative", "floor"]  # families share no coefficient
# a phase that is all wire keeps this share for its terms, so that no row asks for a negative time
_LEAST_REST = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`us` = `factors` times the coefficients, to a relative error `se` beside the run-to-run spread.

    `us` has the wire time of collectives taken out; `total_us` has it in, and errors are relative
    to it. Rows of one `cell` share the error of their run.
    """

    cell: int
    kind: str  # "cycle", "floor", or the phase
    us: float
    total_us: float
    se: float
    factors: Vector
    family: Family


def rows_of(
    cells: Sequence[Cell],
    columns: Sequence[str],
    host_bound: Sequence[bool],
    pooled: Sequence[CollectiveCost],
) -> list[Row]:
    """Return every row of a group; `pooled` costs stand in where a cell has no collectives of its own."""
    rows: list[Row] = []
    kinds = {phase: phase_kind(cells, phase) for phase in _PHASES}
    both = {phase: both_measured(cells, phase) for phase in _PHASES}
    for index, cell in enumerate(cells):
        at, costs = setting_of(cell), costs_of_cell(cell, pooled)
        if cell.cycle is not None:
            if host_bound[index]:
                unit = np.array([float(name == "host_cycle_us") for name in columns])
                rows.append(_row(index, "floor", cell.cycle, 0.0, unit, cell.num_steps))
            else:
                wire = cycle_wire_us(costs, at)
                factors = cycle_vector(columns, at)
                rows.append(_row(index, "cycle", cell.cycle, wire, factors, cell.num_steps))
        for phase in _PHASES:
            rows += _phase_rows(index, cell, phase, columns, costs, kinds[phase], both[phase])
        rows += _step_rows(index, cell, columns, costs)
    return rows


def _row(cell: int, kind: str, time: Timed, wire_us: float, factors: Vector, num_steps: int) -> Row:
    rest = max(time.us - wire_us, _LEAST_REST * time.us)
    family: Family = "floor" if kind == "floor" else "plain" if num_steps == 0 else "speculative"
    return Row(cell=cell, kind=kind, us=rest, total_us=time.us, se=time.se, factors=factors, family=family)


def _phase_rows(
    index: int,
    cell: Cell,
    phase: str,
    columns: Sequence[str],
    costs: Sequence[CollectiveCost],
    kind: str | None,
    both: bool,
) -> list[Row]:
    at = setting_of(cell)
    wire = phase_wire_us(costs, phase, at)
    factors = phase_vector(columns, phase, at)
    if not factors.any():
        return []
    rows = []
    if phase in cell.graph:
        rows.append(_row(index, phase, cell.graph[phase], wire, factors, cell.num_steps))
    if phase in cell.stage and (kind == "stage" or both):
        overhead = np.array([float(name == f"stage_overhead_{phase}_us") for name in columns])
        whole = phase_vector(columns, phase, at)
        rows.append(_row(index, phase, cell.stage[phase], wire, whole + overhead, cell.num_steps))
    return rows


def _step_rows(index: int, cell: Cell, columns: Sequence[str], costs: Sequence[CollectiveCost]) -> list[Row]:
    """Return a row for the mean draft forward inside the draft pass."""
    if not cell.steps or cell.num_steps < 2:
        return []
    one = Setting(
        num_steps=2,
        num_draft_tokens=cell.num_draft_tokens,
        topk=cell.topk,
        batch_size=cell.padded_batch_size,
        context_tokens=cell.context_tokens,
    )
    factors = phase_vector(columns, "draft", one).copy()
    if cell.steps_exclude_selection and "draft_selection_us" in columns:
        factors[list(columns).index("draft_selection_us")] = 0.0
    wire = sum(cost.per_forward * cost.wire_us for cost in costs if cost.phase == "draft")
    return [_row(index, "draft_step", Timed(us=fmean(cell.steps), se=0.0), wire, factors, cell.num_steps)]
