"""The all-reduce what-if: fitted on runs with the engine's own all-reduce, asked for NCCL's, measured.

The recorded servers with `-nccl` in their name ran with custom all-reduce off: the same model at two
all-reduce latencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.forecast import Candidate, Question
from toolkit.schema.inspection import Configuration, Inspection, RunReport

_MAIN_PHASE = {True: "decode", False: "verify"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One configuration with NCCL: cycles in ms. `as_fitted_ms` is the forecast without the what-if."""

    tp_size: int
    num_steps: int
    batch_size: int
    context_tokens: int
    allreduce_us: float
    measured_ms: float
    asked: Candidate
    as_fitted_ms: float


def changed(runs: list[RunReport]) -> Iterator[Changed]:
    """Yield every NCCL configuration of one group's runs, forecast from the others."""
    others = [run for run in runs if "-nccl" in run.run]
    if not others:
        return
    model = fit_cost_model(Inspection(runs=tuple(run for run in runs if run not in others)))
    for run in others:
        cell = max(run.configurations, key=lambda one: one.cycles or 0)
        wire = _wire_us(cell)
        if wire is None or cell.cycle_us is None or cell.num_steps is None or cell.batch_size is None:
            continue
        question = Question(
            accept_length=1.0 if not cell.num_steps else 2.0,
            at_num_draft_tokens=None if not cell.num_steps else cell.num_draft_tokens,
            steps=(cell.num_steps,),
            batch_size=cell.batch_size,
            context_tokens=cell.context_tokens,
            tp_size=run.tp_size,
            anyway=True,
        )
        asked, fitted = (
            predict(model, one).candidates[0]
            for one in (Question(**{**_fields(question), "allreduce_us": wire}), question)
        )
        yield Changed(
            tp_size=run.tp_size or 0,
            num_steps=cell.num_steps,
            batch_size=cell.batch_size,
            context_tokens=cell.context_tokens or 0,
            allreduce_us=wire,
            measured_ms=cell.cycle_us.mean / 1000,
            asked=asked,
            as_fitted_ms=fitted.cycle_ms.value or 0.0,
        )


def _fields(question: Question) -> dict[str, object]:
    return {name: getattr(question, name) for name in Question.__dataclass_fields__}


def _wire_us(cell: Configuration) -> float | None:
    """Return the mean wire time of a collective of the target's forward, as the run itself shows it."""
    phase = _MAIN_PHASE[cell.num_steps == 0]
    timed = [one for one in cell.collectives if one.phase == phase and one.wire_us]
    count = sum(one.per_cycle for one in timed)
    return sum(one.per_cycle * (one.wire_us or 0.0) for one in timed) / count if count else None


def changed_lines(found: list[Changed]) -> list[str]:
    """Return the table."""
    lines = [
        "| TP | steps | batch | context | all-reduce | measured | predicted | off | inside 90 % | "
        "without the what-if |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for one in found:
        cycle = one.asked.cycle_ms
        value, lo, hi = cycle.value or 0.0, cycle.lo or 0.0, cycle.hi or float("inf")
        lines.append(
            f"| {one.tp_size} | {one.num_steps or 'plain'} | {one.batch_size} | {one.context_tokens} "
            f"| {one.allreduce_us:.1f} us | {one.measured_ms:.2f} ms | {value:.2f} ms ({lo:.2f}-{hi:.2f}) "
            f"| {value / one.measured_ms - 1:+.1%} | {'yes' if lo <= one.measured_ms <= hi else 'no'} "
            f"| {one.as_fitted_ms / one.measured_ms - 1:+.1%} |"
        )
    return lines
