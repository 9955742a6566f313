"""Wire time of collectives: measured in the cycle, never fitted; no ordinary sweep can identify it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import NamedTuple

from toolkit.model.cell import Cell, setting_of
from toolkit.model.message_size import doubt_us, message_tokens, wire_at
from toolkit.model.terms import Setting
from toolkit.schema.cost import CollectiveCost, SizedWire
from toolkit.schema.inspection import CollectiveReport

_PLAIN_PHASE = "decode"
DRAFT_PHASES = ("draft", "draft_extend")


def collective_costs(cells: Iterable[Cell]) -> tuple[CollectiveCost, ...]:
    """Return counts per forward and wire times, pooled over the cells that have wire apart from wait.

    Of a phase that any cell has from a trace, what spans say is left out: it is no better, and not
    by operation. A plain step runs the verify forward's layers: where its collectives were not
    measured, verify's count stands in, marked as not measured.
    """
    found: dict[_Kind, list[tuple[float, float]]] = {}
    cells = list(cells)
    for cell in cells:
        for kind, pair in _by_kind(cell).items():
            found.setdefault(kind, []).append(pair)
    traced = {(kind.phase, kind.draft_tp) for kind in found if kind.source == "trace"}
    costs = [
        CollectiveCost(
            phase=kind.phase,
            op=kind.op,
            per_forward=fmean(count for count, _ in pairs),
            wire_us=median(wire for _, wire in pairs),
            source=kind.source,
            algorithm=_algorithm(cells, kind),
            draft_tp=kind.draft_tp or None,
            by_tokens=_by_tokens(cells, kind) if kind.source == "trace" else (),
        )
        for kind, pairs in sorted(found.items())
        if kind.source == "trace" or (kind.phase, kind.draft_tp) not in traced
    ]
    if not any(cost.phase == _PLAIN_PHASE for cost in costs):
        costs += [
            replace(cost, phase=_PLAIN_PHASE, measured=False) for cost in costs if cost.phase == "verify"
        ]
    return tuple(costs)


class _Kind(NamedTuple):
    phase: str
    op: str
    source: str
    draft_tp: int = 0  # of draft phases, where it is not that of most of the group


def _kind(cell: Cell, report: CollectiveReport) -> _Kind:
    apart = cell.other_draft_tp if report.phase in DRAFT_PHASES else None
    return _Kind(report.phase, report.op, report.source, apart or 0)


def _by_kind(cell: Cell) -> dict[_Kind, tuple[float, float]]:
    """Return count per forward and mean wire time of each kind of one cell."""
    kinds: dict[_Kind, list[CollectiveReport]] = {}
    for report in cell.collectives:
        if report.wire_us is not None and report.wire_us > 0 and report.per_cycle > 0:
            kinds.setdefault(_kind(cell, report), []).append(report)
    pairs = {}
    for kind, reports in kinds.items():
        forwards = _forwards_of(kind.phase, cell.num_steps)
        if forwards > 0:
            count = sum(report.per_cycle for report in reports)
            wire = sum(report.per_cycle * (report.wire_us or 0.0) for report in reports) / count
            pairs[kind] = (count / forwards, wire)
    return pairs


def _algorithm(cells: Iterable[Cell], kind: _Kind) -> str | None:
    """Return the algorithm of most collectives of a kind, None where no trace names one."""
    counts: Counter[str] = Counter()
    for cell in cells:
        for report in cell.collectives:
            if report.algorithm and _kind(cell, report) == kind:
                counts[report.algorithm] += round(report.per_cycle)
    return counts.most_common(1)[0][0] if counts else None


def _by_tokens(cells: Iterable[Cell], kind: _Kind) -> tuple[SizedWire, ...]:
    """Return wire times by size of message, empty for a single size; of the algorithm used most at each."""
    wires: dict[int, dict[str | None, list[float]]] = {}
    for cell in cells:
        for report in cell.collectives:
            if report.wire_us and report.per_cycle > 0 and _kind(cell, report) == kind:
                tokens = message_tokens(kind.phase, setting_of(cell))
                wires.setdefault(tokens, {}).setdefault(report.algorithm, []).append(report.wire_us)
    counts = Counter(name for named in wires.values() for name, times in named.items() for _ in times)
    made = []
    for tokens, named in sorted(wires.items()):
        most = max(named, key=lambda name: counts[name])
        made.append(SizedWire(tokens, median(named[most]), most))
    return tuple(made) if len(made) > 1 else ()


def _forwards_of(phase: str, num_steps: int) -> int:
    return num_steps - 1 if phase == "draft" else 1


def costs_of_cell(cell: Cell, pooled: Sequence[CollectiveCost]) -> tuple[CollectiveCost, ...]:
    """Return a cell's own costs where it has them, as its server may use other algorithms; else pooled."""
    own = _by_kind(cell)
    phases = {kind.phase for kind in own}
    costs = [cost for cost in pooled if cost.phase not in phases]
    costs += [
        CollectiveCost(
            phase=kind.phase,
            op=kind.op,
            per_forward=count,
            wire_us=wire,
            source=kind.source,
            draft_tp=kind.draft_tp or None,
        )
        for kind, (count, wire) in sorted(own.items())
    ]
    return tuple(costs)


def phase_wire_us(costs: Sequence[CollectiveCost], phase: str, at: Setting) -> float:
    """Return the wire time of one phase in one cycle, in us."""
    forwards = _forwards_of(phase, at.num_steps)
    draft_tp = at.draft_tp if phase in DRAFT_PHASES else None
    return sum(
        cost.per_forward * wire_at(cost, message_tokens(phase, at)) * forwards
        for cost in costs
        if cost.phase == phase and cost.draft_tp == draft_tp
    )


def cycle_wire_us(costs: Sequence[CollectiveCost], at: Setting) -> float:
    """Return the wire time of a whole cycle, in us."""
    phases = ("decode",) if at.num_steps == 0 else ("draft", "draft_extend", "verify", "sample")
    return sum(phase_wire_us(costs, phase, at) for phase in phases)


def wire_doubt_us(costs: Sequence[CollectiveCost], at: Setting) -> float:
    """Return how far off the wire time of a cycle may be in us for messages of sizes not measured."""
    phases = ("decode",) if at.num_steps == 0 else ("draft", "draft_extend", "verify", "sample")
    return sum(
        cost.per_forward
        * doubt_us(cost, message_tokens(cost.phase, at))
        * _forwards_of(cost.phase, at.num_steps)
        for cost in costs
        if cost.phase in phases
    )


def scaled(
    costs: Sequence[CollectiveCost], allreduce_us: float | None, allreduce_scale: float | None
) -> tuple[CollectiveCost, ...]:
    """Return the costs with every all-reduce taking `allreduce_us`, then times `allreduce_scale`."""
    scale = 1.0 if allreduce_scale is None else allreduce_scale

    def other(wire_us: float) -> float:
        return (wire_us if allreduce_us is None else allreduce_us) * scale

    return tuple(
        replace(
            cost,
            wire_us=other(cost.wire_us),
            by_tokens=tuple(replace(size, wire_us=other(size.wire_us)) for size in cost.by_tokens),
        )
        if is_allreduce(cost)
        else cost
        for cost in costs
    )


def is_allreduce(cost: CollectiveCost) -> bool:
    """Return whether the what-if about all-reduces touches this cost.

    It does what spans timed, though a gather or two of a forward is among it: most are all-reduces.
    """
    return "all_reduce" in cost.op or "allreduce" in cost.op or cost.source == "spans"
