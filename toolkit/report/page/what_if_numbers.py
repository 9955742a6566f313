"""What the sliders of the page compute with: a plain object, the same numbers as `predict` has."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

from toolkit.schema.forecast import Forecast
from toolkit.schema.report import AcceptLengthLines, GridCycle, GroupAnswer, ReportFacts

_DIGITS = 8  # significant: beyond what is shown, so that rounding agrees with that of `predict`
_ACCEPTANCE = (
    "--accept-rate",
    "--accept-length",
    "--accept-by-position",
    "--rate-kind",
    "--at-num-draft-tokens",
)
_SLIDERS = ("--batch-size", "--context-tokens")
_GROUP = ("--engine", "--model-name", "--gpu", "--tp-size", "--draft-model")


def what_if_numbers(key: str, answer: GroupAnswer, facts: ReportFacts) -> dict[str, Any] | None:
    """Return the grid of one group as JSON-ready lists; None where there is none."""
    grid, forecast = answer.grid, answer.forecast
    if grid is None or forecast is None or grid.lengths is None:
        return None
    own = own_lengths(answer)
    return {
        "key": key,
        "steps": list(grid.steps),
        "batches": list(grid.batches),
        "startBatch": grid.batches.index(int(str(forecast.inputs["batch_size"]))),
        "cycle": _values(grid.cycles),
        "marks": _marks(grid.cycles),
        "allreduce": list(grid.allreduce_us),
        "changed": [_values(rows) for rows in grid.allreduce_cycles],
        "changedMarks": [_marks(rows) for rows in grid.allreduce_cycles],
        "lengths": _lines(grid.lengths),
        "own": [_short(length) for length in own],
        "ownLength": _short(forecast.acceptance.accept_length),
        "supposed": answer.length_supposed,
        "command": _command(answer, facts, grid.context_tokens),
        "ownAcceptance": "" if answer.length_supposed else _options(facts, _ACCEPTANCE),
    }


def own_lengths(answer: GroupAnswer) -> tuple[float | None, ...]:
    """Return the accept lengths of the forecast for each step count of the grid."""
    grid, forecast = answer.grid, answer.forecast
    if grid is None or forecast is None:
        return ()
    known = _known_lengths(forecast)
    return tuple(known.get(steps) for steps in grid.steps)


def _known_lengths(forecast: Forecast) -> dict[int, float | None]:
    found: dict[int, float | None] = {}
    for one in forecast.candidates:
        found.setdefault(one.num_steps, one.accept_length)
    return found


def _values(rows: Sequence[Sequence[GridCycle]]) -> list[list[float | list[float | None] | None]]:
    """Return values in us; a pair of ends where only a range is known, None where not even that."""
    return [[_value(cell) for cell in row] for row in rows]


def _value(cell: GridCycle) -> float | list[float | None] | None:
    if cell.determined:
        return _short(cell.value)
    return None if cell.lo is None else [_short(cell.lo), _short(cell.hi)]


def _marks(rows: Sequence[Sequence[GridCycle]]) -> list[str]:
    """Return a letter for each step count: `~` not determined, `^` beyond what was run, `.` neither."""
    return ["".join("~" if not cell.determined else ".^"[cell.extrapolated] for cell in row) for row in rows]


def _lines(lengths: AcceptLengthLines) -> dict[str, Any]:
    return {
        "steps": lengths.num_steps,
        "tokens": lengths.num_draft_tokens,
        "given": [_short(length) for length in lengths.given],
        "values": [[_short(value) for value in row] for row in lengths.values],
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _command(answer: GroupAnswer, facts: ReportFacts, context_tokens: int | None) -> str:
    """Return the command that asks the same of `predict`, but for what the sliders choose."""
    parts = ["toolkit predict --model", quote(facts.model_path or "cost-model.json")]
    for option, value in answer.selectors:
        parts += [option, quote(value)]
    if context_tokens is not None:
        parts += ["--context-tokens", str(context_tokens)]
    others = _options(facts, (*_ACCEPTANCE, *_SLIDERS, *_GROUP), leave_out=True)
    return " ".join([*parts, others] if others else parts)


def _options(facts: ReportFacts, named: Sequence[str], *, leave_out: bool = False) -> str:
    """Return the options that were typed, those named or all others."""
    chosen = [(option, value) for option, value in facts.options if (option in named) != leave_out]
    return " ".join(f"{option} {quote(value)}" if value else option for option, value in chosen)
