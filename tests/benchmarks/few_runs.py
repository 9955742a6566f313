"""Whether speculation wins at TP 2, from the runs at TP 1 and two runs at TP 2: plain decoding and 3 steps.

Of the servers that `toolkit profile` recorded, at batch 1; the other TP 2 servers are what is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model
from toolkit.schema.cost import CheckedCell
from toolkit.schema.inspection import Inspection, RunReport

ACCEPT_LENGTH = 2.0  # what every recorded server kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One step count at TP 2 beside plain decoding: gains of tokens per second as fractions."""

    cell: CheckedCell
    gain: float
    predicted: float
    lowest: float
    highest: float

    @property
    def open(self) -> bool:
        """Say whether the interval holds both a win and a loss."""
        return self.lowest < 0 < self.highest

    @property
    def right(self) -> bool:
        """Say whether win or loss is as predicted."""
        return (self.predicted > 0) == (self.gain > 0)


def verdicts(groups: Mapping[tuple[str | None, int | None], Sequence[RunReport]]) -> Iterator[Verdict]:
    """Yield every speculative configuration at TP 2 and batch 1, the fitted one included."""
    two = [run for run in groups["sglang", 2] if "-shaped-dummy-" in run.run and run.run.endswith("-b1")]
    few = [run for run in two if run.num_steps in (0, 3)]
    model = fit_cost_model(Inspection(runs=(*groups["sglang", 1], *few)))
    cells = check_model(model, Inspection(runs=tuple(two)), "few").configurations
    plain = next(one for one in cells if one.num_steps == 0)
    for one in cells:
        if one.num_steps:
            yield Verdict(
                cell=one,
                gain=ACCEPT_LENGTH * plain.measured_ms / one.measured_ms - 1,
                predicted=ACCEPT_LENGTH * plain.predicted_ms / one.predicted_ms - 1,
                lowest=ACCEPT_LENGTH * plain.predicted_ms / one.hi_ms - 1,
                highest=ACCEPT_LENGTH * plain.predicted_ms / one.lo_ms - 1,
            )


def verdict_lines(found: Sequence[Verdict]) -> list[str]:
    """Return the table."""
    lines = [
        "| steps | cycle | predicted | off | inside 90 % | gain over plain | predicted | answer |",
        "| ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |",
    ]
    for one in found:
        cell = one.cell
        answer = "right" if one.right else "wrong"
        lines.append(
            f"| {cell.num_steps} | {cell.measured_ms:.2f} ms | {cell.predicted_ms:.2f} ms "
            f"({cell.lo_ms:.2f}-{cell.hi_ms:.2f}) | {cell.error:+.1%} | {'yes' if cell.inside else 'no'} "
            f"| {one.gain:+.1%} | {one.predicted:+.1%} ({one.lowest:+.1%} to {one.highest:+.1%}) "
            f"| {answer}{', open' if one.open else ''} |"
        )
    return lines
