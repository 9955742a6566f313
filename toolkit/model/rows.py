"""Cells to rows of the least squares: one for the whole cycle, one for each phase measured apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from toolkit.model.cell import Cell, Timed, setting_of
from toolkit.model.collective_costs import costs_of_cell, cycle_wire_us, phase_wire_us
from toolkit.model.columns import both_measured, phase_kind
from toolkit.model.terms import Setting, Vector, cycle_vector, draft_column, floor_vector, phase_vector
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


class RowBook:
    """Rows that were made before: leaving one configuration out asks for nearly all of them again.

    It knows cells by their identity and keeps them, so none is taken for another.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], dict[tuple[int, int, bool], tuple[Row, ...]]] = {}
        self._kept: dict[int, object] = {}

    def of(self, form: _Form) -> dict[tuple[int, int, bool], tuple[Row, ...]]:
        """Return rows made in a form, by the cell's place and identity, and whether it is a floor."""
        return self._made.setdefault((form.columns, form.kinds, form.both, id(form.pooled)), {})

    def keep(self, cell: Cell, form: _Form) -> None:
        """Hold what was named by its identity."""
        self._kept |= {id(cell): cell, id(form.pooled): form.pooled}


@dataclass(frozen=True, slots=True)
class _Form:
    """What the rows of a cell depend on beside the cell; `kinds` and `both` by phase."""

    columns: tuple[str, ...]
    kinds: tuple[str | None, ...]
    both: tuple[bool, ...]
    pooled: tuple[CollectiveCost, ...]


def rows_of(
    cells: Sequence[Cell],
    columns: tuple[str, ...],
    host_bound: Sequence[bool],
    pooled: tuple[CollectiveCost, ...],
    book: RowBook | None = None,
) -> list[Row]:
    """Return every row of a group; `pooled` costs stand in where a cell has no collectives of its own."""
    form = _Form(
        columns=columns,
        kinds=tuple(phase_kind(cells, phase) for phase in _PHASES),
        both=tuple(both_measured(cells, phase) for phase in _PHASES),
        pooled=pooled,
    )
    book = RowBook() if book is None else book
    made = book.of(form)
    rows: list[Row] = []
    for index, (cell, floor) in enumerate(zip(cells, host_bound, strict=True)):
        key = (index, id(cell), floor)
        if key not in made:
            book.keep(cell, form)
            made[key] = tuple(replace(row, cell=index) for row in _cell_rows(cell, form, floor))
        rows += made[key]
    return rows


def _cell_rows(cell: Cell, form: _Form, host_bound: bool) -> list[Row]:
    rows: list[Row] = []
    at, costs, columns = setting_of(cell), costs_of_cell(cell, form.pooled), form.columns
    if cell.cycle is not None:
        floor = floor_vector(columns, at) if host_bound else None
        if floor is not None:
            rows.append(_row("floor", cell.cycle, 0.0, floor, cell.num_steps))
        else:
            wire = cycle_wire_us(costs, at)
            rows.append(_row("cycle", cell.cycle, wire, cycle_vector(columns, at), cell.num_steps))
    for phase, kind, both in zip(_PHASES, form.kinds, form.both, strict=True):
        rows += _phase_rows(cell, at, phase, columns, costs, kind == "stage" or both)
    return rows + _step_rows(cell, columns, costs)


def _row(kind: str, time: Timed, wire_us: float, factors: Vector, num_steps: int) -> Row:
    rest = max(time.us - wire_us, _LEAST_REST * time.us)
    family: Family = "floor" if kind == "floor" else "plain" if num_steps == 0 else "speculative"
    return Row(cell=0, kind=kind, us=rest, total_us=time.us, se=time.se, factors=factors, family=family)


def _phase_rows(
    cell: Cell, at: Setting, phase: str, columns: Sequence[str], costs: Sequence[CollectiveCost], stages: bool
) -> list[Row]:
    factors = phase_vector(columns, phase, at)
    if not factors.any():
        return []
    wire = phase_wire_us(costs, phase, at)
    rows = []
    if phase in cell.graph:
        rows.append(_row(phase, cell.graph[phase], wire, factors, cell.num_steps))
    if phase in cell.stage and stages:
        overhead = np.array([float(name == f"stage_overhead_{phase}_us") for name in columns])
        rows.append(_row(phase, cell.stage[phase], wire, factors + overhead, cell.num_steps))
    return rows


def _step_rows(cell: Cell, columns: Sequence[str], costs: Sequence[CollectiveCost]) -> list[Row]:
    """Return a row for the mean draft forward inside the draft pass."""
    if not cell.steps or cell.num_steps < 2:
        return []
    one = Setting(
        num_steps=2,
        num_draft_tokens=cell.num_draft_tokens,
        topk=cell.topk,
        batch_size=cell.padded_batch_size,
        context_tokens=cell.context_tokens,
        draft_tp=cell.other_draft_tp,
    )
    factors = phase_vector(columns, "draft", one).copy()
    selection = draft_column("draft_selection_us", cell.other_draft_tp)
    if cell.steps_exclude_selection and selection in columns:
        factors[list(columns).index(selection)] = 0.0
    wire = phase_wire_us(costs, "draft", one)
    return [_row("draft_step", Timed(us=fmean(cell.steps), se=0.0), wire, factors, cell.num_steps)]
