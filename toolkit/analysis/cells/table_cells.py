"""Configurations from the rows of a table of benchmark numbers."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.schema.inspection import (
    AcceptanceReport,
    Configuration,
    PhaseTime,
    RankReport,
    Spread,
    Throughput,
)
from toolkit.schema.log import LogLine
from toolkit.schema.measurement import Measurement
from toolkit.units import cycle_us_of, tokens_per_second, us_from_ms

_TOK_S_DIGITS = 0.011  # a table that repeats a log line may have rounded it to two digits


def table_cells(rows: Sequence[Measurement]) -> list[Configuration]:
    """Return one configuration a row, never pooled: rows of a table are means of different loads."""
    return [_cell(row) for row in rows]


def _cell(row: Measurement) -> Configuration:
    cycle_us = row_cycle_us(row)
    length = row.accept_length
    acceptance = AcceptanceReport(accept_length=length) if length is not None and row.num_steps != 0 else None
    from_cycle = None
    if cycle_us and row.batch_size and (length or row.num_steps == 0):
        from_cycle = tokens_per_second(row.batch_size * (length or 1.0), cycle_us)
    return Configuration(
        batch_size=row.batch_size,
        padded_batch_size=None,
        num_steps=row.num_steps,
        num_draft_tokens=row.num_draft_tokens,
        topk=row.topk,
        context_tokens=row.context_tokens,
        cycles=0,
        sources=("table",),
        cycle_us=_exact(cycle_us) if cycle_us else None,
        cycle_source="table" if cycle_us else None,
        ranks=_phases(row),
        acceptance=acceptance,
        throughput_tok_s=Throughput(
            measured=row.tok_s, from_cycle=from_cycle, measured_by="table" if row.tok_s else None
        ),
        row=row.row,
        draft_model=row.draft_model,
    )


def row_cycle_us(row: Measurement) -> float | None:
    """Return the cycle: as published, else batch x accept length / throughput."""
    if row.cycle_ms is not None:
        return us_from_ms(row.cycle_ms)
    length = 1.0 if row.num_steps == 0 else row.accept_length
    if row.tok_s and row.batch_size and length:
        return cycle_us_of(row.batch_size * length, row.tok_s)
    return None


def _phases(row: Measurement) -> tuple[RankReport, ...]:
    """Return published phase times; how they were taken is not known, so they are stage times."""
    published = {"draft": row.draft_ms, "verify": row.verify_ms}
    phases = {
        name: PhaseTime(stage_us=_exact(us_from_ms(ms))) for name, ms in published.items() if ms is not None
    }
    return (RankReport(tp_rank=0, gpu_busy_fraction=None, phases=phases),) if phases else ()


def _exact(value_us: float) -> Spread:
    return Spread(median=value_us, p10=value_us, p90=value_us, mean=value_us, se=0.0, count=1)


def repeats_a_line(row: Measurement, lines: Sequence[LogLine]) -> bool:
    """Return whether a row is one of the log's lines written down again."""
    return any(
        row.tok_s is not None
        and line.tok_s is not None
        and abs(row.tok_s - line.tok_s) < _TOK_S_DIGITS
        and row.accept_length is not None
        and line.accept_length is not None
        and abs(row.accept_length - line.accept_length) < _TOK_S_DIGITS
        and row.batch_size in (None, line.running_req)
        for line in lines
    )
