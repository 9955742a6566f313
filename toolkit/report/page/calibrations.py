"""Calibrations on the page: what one more collective and one forward take on a host, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.report.page.figure import Numbers
from toolkit.report.tables import counted, number
from toolkit.schema.calibration import Calibration
from toolkit.schema.inspection import RunReport

_MOST_SIZES = 5  # columns of message sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationTables:
    """One calibration; `skipped` are sentences of what was not measured."""

    title: str
    what: str
    collectives: Numbers
    forwards: Numbers
    skipped: tuple[str, ...]


def calibration_tables(runs: Sequence[RunReport]) -> tuple[CalibrationTables, ...]:
    """Return every calibration that was read."""
    return tuple(_tables(run.run, run.calibration) for run in runs if run.calibration is not None)


def _tables(name: str, made: Calibration) -> CalibrationTables:
    host = f"{made.gpu_count} × {made.gpu}" if made.gpu_count else made.gpu or made.device
    models = [f"{one.name} ({counted(one.layers, 'layer')})" for one in (made.target, made.draft) if one]
    return CalibrationTables(
        title=name,
        what=f"Measured on {host}: {', drafted by '.join(models) or 'no model named'}.",
        collectives=_collectives(made),
        forwards=_forwards(made),
        skipped=made.skipped,
    )


def _collectives(made: Calibration) -> Numbers:
    """Return the medians of each kind at a handful of sizes, the smallest and the largest among them."""
    sizes = sorted({one.message_bytes for one in made.collectives})
    step = max((len(sizes) - 1) / (_MOST_SIZES - 1), 1.0)
    shown = list(dict.fromkeys(sizes[round(place * step)] for place in range(min(_MOST_SIZES, len(sizes)))))
    rows: dict[tuple[str, str, int], dict[int, float]] = {}
    for one in made.collectives:
        kind = (one.op.replace("_", "-"), one.algorithm, one.group_size)
        rows.setdefault(kind, {})[one.message_bytes] = one.latency_us.median
    return Numbers(
        columns=("collective", "algorithm", "ranks", *(f"{size:,} bytes, us" for size in shown)),
        rows=tuple(
            (op, algorithm, str(ranks), *(number(of.get(size)) for size in shown))
            for (op, algorithm, ranks), of in rows.items()
        ),
    )


def _forwards(made: Calibration) -> Numbers:
    rows = tuple(
        (
            one.kind.replace("_", " "),
            str(one.tp_size),
            str(one.batch_size),
            str(one.num_tokens),
            str(one.context_tokens),
            number(one.compute_us.median),
            number(None if one.total_us is None else one.total_us.median),
            one.algorithm or "-",
        )
        for one in made.forwards
    )
    columns = ("forward", "TP", "batch", "tokens", "context", "alone, us", "with collectives, us", "by")
    return Numbers(columns=columns, rows=rows)
