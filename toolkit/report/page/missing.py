"""What a group's runs cannot tell, and what to record so that they can: sentences."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import steps_text
from toolkit.model.collective_costs import is_allreduce
from toolkit.report.page.phases import has_phases
from toolkit.schema.cost import NextRun
from toolkit.schema.inspection import Configuration, RunReport
from toolkit.schema.report import GroupAnswer

Measured = tuple[RunReport, Configuration]


def missing_of_runs(measured: Sequence[Measured]) -> list[str]:
    """Return what the recordings lack, whatever the fit made of them."""
    cells = [cell for _, cell in measured]
    steps = {cell.num_steps for cell in cells if cell.cycle_us and cell.num_steps is not None}
    said = []
    if 0 not in steps:
        said.append(
            "Plain decoding was not measured, so nothing says what speculation has to beat: run the same "
            "load with speculation off, or give one row of measurements.csv with 0 steps."
        )
    if not steps - {0}:
        said.append("No speculative cycle was timed: run the same load with speculation on.")
    elif len(steps - {0}) == 1:
        said.append(
            f"With speculation, {steps_text(next(iter(steps - {0})))} alone {_was(steps)} run, so what one "
            "more draft step costs is known from inside a cycle or not at all: run a second step count."
        )
    if not any(has_phases(cell) for cell in cells):
        said.append(
            "Nothing splits a cycle into its phases: give a kernel trace of every rank, or profile the "
            "server with `toolkit profile`."
        )
    if not any(cell.acceptance and cell.acceptance.accept_by_position for cell in cells):
        said.append(
            "Acceptance by position was not counted: `toolkit profile` counts it, client.json can hold it."
        )
    return said


def _was(steps: set[int]) -> str:
    return "was" if steps - {0} == {1} else "were"


def missing_of_group(answer: GroupAnswer, measured: Sequence[Measured]) -> list[str]:
    """Return what recordings and fit of one group lack."""
    group = answer.group
    said = missing_of_runs(measured) if measured else []
    if answer.length_supposed and answer.refused:
        said.append(f"No forecast of throughput: {answer.refused}.")
    elif group.curve is None:
        said.append(
            "No real acceptance was counted by position, so that at other step counts follows the prior of "
            "public heads."
        )
    if (group.tp_size or 1) > 1 and not any(is_allreduce(cost) for cost in group.collectives):
        said.append(
            "No all-reduce was matched over ranks, so its latency cannot be changed: give a kernel trace of "
            "every rank."
        )
    if (group.tp_size or 1) > 1 and group.calibration is None:
        said.append(
            "No calibration of this GPU is given, so another draft TP is known as a range at most: run "
            "`toolkit calibrate` and give its folder."
        )
    pairs = group.identifiability.confounded
    if pairs:
        said.append(f"Cannot be told apart: {'; '.join(f'{one} and {other}' for one, other in pairs)}.")
    return said


def next_run_text(run: NextRun) -> str:
    """Return a run that would narrow the forecasts most, with its reason."""
    context = "" if run.context_tokens is None else f", context {run.context_tokens}"
    steps = steps_text(run.num_steps)
    return f"{steps[:1].upper()}{steps[1:]} at batch {run.batch_size}{context}: {run.why}."
