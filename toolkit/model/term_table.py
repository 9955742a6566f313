"""Coefficients as the user sees them: what is not determined has no value, never a zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.model.collective_costs import is_allreduce
from toolkit.model.fit_cells import FitDetail
from toolkit.model.rows import Row
from toolkit.model.terms import PER, PHASE_TERMS, term_of
from toolkit.schema.cost import CollectiveCost, Term

_OPEN = 1e-4
_UNIT = "us"
NOT_TOLD = "; not told from 0"


def terms_of(detail: FitDetail, tp_size: int | None) -> tuple[Term, ...]:
    """Return every fitted coefficient, the all-reduce, and a whole step where only that is determined."""
    fitted = detail.fitted
    terms = [_term(detail, index, name) for index, name in enumerate(fitted.columns)]
    terms += _per_step(detail, terms)
    if (tp_size or 1) > 1:
        terms.append(_allreduce(fitted.costs))
    return tuple(terms)


def _term(detail: FitDetail, index: int, name: str) -> Term:
    fitted = detail.fitted
    value = float(fitted.solution[index])
    se = float(np.std(fitted.draws[:, index], ddof=1)) if len(fitted.draws) > 1 else 0.0
    seen = not len(fitted.null) or float(np.abs(fitted.null[:, index]).max()) < _OPEN
    identified = seen and value > 0 and se < value
    source = _source(detail, index, name)
    if seen and not identified:
        source += NOT_TOLD
    return Term(
        name=name,
        value=value if identified else None,
        se=se if identified else None,
        unit=_UNIT,
        identified=identified,
        source=source,
        per=PER[term_of(name)[0]],
        left_open=not seen,
    )


def _source(detail: FitDetail, index: int, name: str) -> str:
    """Return where a coefficient comes from: the closest measurement that holds it."""
    rows = [row for row in detail.rows if row.factors[index] != 0]
    if any(row.kind == "draft_step" for row in rows):
        sources = {
            "spans" if detail.cells[row.cell].steps_exclude_selection else "trace"
            for row in rows
            if row.kind == "draft_step"
        }
        return "draft steps in " + " and ".join(sorted(sources))
    phases = [row for row in rows if row.kind not in ("cycle", "floor")]
    if phases and name.startswith("stage_overhead"):
        return "stage less graph"
    if phases:
        return " and ".join(sorted({_phase_source(detail, row) for row in phases}))
    sources = {detail.cells[row.cell].cycle_source or "unknown" for row in rows}
    return "cycle in " + " and ".join(sorted(sources))


def _phase_source(detail: FitDetail, row: Row) -> str:
    return "graph" if row.kind in detail.cells[row.cell].graph else "stage"


def _per_step(detail: FitDetail, terms: Sequence[Term]) -> list[Term]:
    """Return the cost of one more step at each batch where its parts are open but their sum is not."""
    fitted = detail.fitted
    open_terms = {term.name for term in terms if not term.identified}
    if not {"draft_forward_us", "verify_token_us"} <= open_terms:
        return []
    made = []
    for batch in fitted.support.speculative_batches:
        factors = np.array([_step_factor(name, batch) for name in fitted.columns])
        scaled = factors / fitted.norms
        if len(fitted.null) and np.linalg.norm(fitted.null @ scaled) > _OPEN * np.linalg.norm(scaled):
            continue
        value = float(factors @ fitted.solution)
        made.append(
            Term(
                name=f"step_us at batch {batch}",
                value=value,
                se=float(np.std(fitted.draws @ factors, ddof=1)),
                unit=_UNIT,
                identified=True,
                source="draft_forward_us and its verified tokens together",
                per="step",
            )
        )
    return made


def _step_factor(name: str, batch: int) -> float:
    if name in ("verify_token_us", "draft_sequence_us"):
        return float(batch)
    return 1.0 if name in PHASE_TERMS["draft"] and name != "draft_branch_us" else 0.0


def _allreduce(costs: Sequence[CollectiveCost]) -> Term:
    """Return the mean wire time of an all-reduce, without an error: medians of phases have none.

    Spans, which time all-gathers among them, are used only where no trace tells.
    """
    measured = [cost for cost in costs if is_allreduce(cost) and cost.measured]
    measured = [cost for cost in measured if cost.source == "trace"] or measured
    if not measured:
        return Term(
            name="allreduce_us",
            value=None,
            se=None,
            unit=_UNIT,
            identified=False,
            source="no all-reduce matched over ranks",
            per="all-reduce",
            left_open=True,
        )
    counts = sum(cost.per_forward for cost in measured)
    value = sum(cost.per_forward * cost.wire_us for cost in measured) / counts
    wires = sorted(cost.wire_us for cost in measured)
    places = ", ".join(f"{cost.per_forward:g} per {_forward(cost.phase)}" for cost in measured)
    phases = f"; {wires[0]:.1f} to {wires[-1]:.1f} by phase" if len(wires) > 1 else ""
    where = "traces" if measured[0].source == "trace" else "spans, all-gathers among them"
    return Term(
        name="allreduce_us",
        value=value,
        se=None,
        unit=_UNIT,
        identified=True,
        source=f"wire time in {where}: {places}{phases}",
        per="all-reduce",
    )


def _forward(phase: str) -> str:
    return "draft forward" if phase == "draft" else phase
