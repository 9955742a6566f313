"""Checks of a table's rows against each other and against themselves; each names the rows that fail."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.analysis.cells.table_cells import row_cycle_us
from toolkit.analysis.row_contradictions import rows_text
from toolkit.schema.inspection import HealthCheck
from toolkit.schema.measurement import Measurement
from toolkit.units import tokens_per_second, us_from_ms

_ROUNDING = 0.02  # share by which published times may contradict each other
_CLOSE = 0.10  # as in the check of throughput over sources


def table_checks(rows: Sequence[Measurement]) -> list[HealthCheck]:
    """Return the checks that apply to a table; none without rows that can be compared."""
    checks = (_above_plain_step(rows), _phases_within_cycle(rows), _throughput(rows))
    return [check for check in checks if check]


def _above_plain_step(rows: Sequence[Measurement]) -> HealthCheck | None:
    """A cycle verifies at least what a plain step decodes, so it cannot be shorter at the same batch."""
    plain: dict[tuple[object, ...], float] = {}
    for row in rows:
        cycle_us = row_cycle_us(row)
        if row.num_steps == 0 and cycle_us is not None:
            plain[_load(row)] = min(cycle_us, plain.get(_load(row), cycle_us))
    compared = [
        (row.row, cycle_us, plain[_load(row)])
        for row in rows
        if row.num_steps and _load(row) in plain and (cycle_us := row_cycle_us(row)) is not None
    ]
    if not compared:
        return None
    bad = [number for number, cycle_us, step_us in compared if cycle_us < step_us * (1 - _ROUNDING)]
    detail = f"{len(compared)} cycles, none shorter than the plain step of its sweep and batch"
    if bad:
        detail = (
            f"{rows_text(bad)} of the table: the cycle is shorter than the plain step of the same sweep and "
            "batch, which cannot be; check accept length, throughput and batch there"
        )
    return HealthCheck(check="cycles above the plain step", ok=not bad, detail=detail)


def _load(row: Measurement) -> tuple[object, ...]:
    server = (row.sweep, row.engine, row.engine_version, row.model, row.gpu, row.tp_size)
    return (*server, row.batch_size, row.context_tokens)


def _phases_within_cycle(rows: Sequence[Measurement]) -> HealthCheck | None:
    compared = [
        (row.row, us_from_ms((row.draft_ms or 0.0) + (row.verify_ms or 0.0)), cycle_us)
        for row in rows
        if (row.draft_ms is not None or row.verify_ms is not None)
        and (cycle_us := row_cycle_us(row)) is not None
    ]
    if not compared:
        return None
    bad = [number for number, phases_us, cycle_us in compared if phases_us > cycle_us * (1 + _ROUNDING)]
    detail = f"draft and verify of {len(compared)} rows fit into their cycles"
    if bad:
        detail = (
            f"{rows_text(bad)} of the table: draft and verify together take longer than the cycle that holds "
            "them; check the units and that the times are of one cycle"
        )
    return HealthCheck(check="draft and verify within the cycle", ok=not bad, detail=detail)


def _throughput(rows: Sequence[Measurement]) -> HealthCheck | None:
    """Compare published throughput with batch x accept length / published cycle."""
    compared = []
    for row in rows:
        length = 1.0 if row.num_steps == 0 else row.accept_length
        if row.cycle_ms and row.tok_s and row.batch_size and length:
            from_cycle = tokens_per_second(row.batch_size * length, us_from_ms(row.cycle_ms))
            compared.append((row.row, from_cycle / row.tok_s - 1))
    if not compared:
        return None
    bad = [number for number, off in compared if abs(off) > _CLOSE]
    detail = f"{len(compared)} rows agree with batch x accept length / cycle"
    if bad:
        detail = (
            f"{rows_text(bad)} of the table: tok/s is more than {_CLOSE:.0%} off batch x accept length / "
            "cycle; it holds prefill or waiting, or one of the four is of another load"
        )
    return HealthCheck(check="table agrees with itself", ok=not bad, detail=detail)
