"""Checks of a table's rows that contradict their neighbours, or the counts in their own notes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolkit.analysis.cells.table_cells import row_cycle_us
from toolkit.schema.inspection import HealthCheck
from toolkit.schema.measurement import Measurement
from toolkit.units import ms_from_us

_TREE_FASTER = 0.10  # share by which a tree may beat the chain of its steps and width: it does no less work
_APART = 1.5  # times the shortest cycle of one setting
_ROUNDING = 0.02
_PREDICTED = re.compile(r"\bn_predict ([0-9]{1,9})\b")
_ACCEPTED = re.compile(r"\bn_accept ([0-9]{1,9})\b")
_MOST_NAMED = 8


def contradiction_checks(rows: Sequence[Measurement]) -> list[HealthCheck]:
    """Return the checks that fail; all pass where there are none."""
    checks = (_tree_below_chain(rows), _setting_apart(rows), _phases_alone(rows), _counts(rows))
    return [check for check in checks if check]


def _tree_below_chain(rows: Sequence[Measurement]) -> HealthCheck | None:
    """A tree verifies as many tokens as a chain of its width and drafts no less."""
    timed = [(row, us) for row in rows if row.num_steps and (us := row_cycle_us(row)) is not None]
    chains: dict[tuple[object, ...], float] = {}
    for row, us in timed:
        if row.topk == 1:
            chains[_work(row)] = min(us, chains.get(_work(row), us))
    bad = [
        (row.row, 1 - us / chains[_work(row)])
        for row, us in timed
        if (row.topk or 1) > 1 and us < (1 - _TREE_FASTER) * chains.get(_work(row), 0.0)
    ]
    if not bad:
        return None
    most = max(share for _, share in bad)
    return _failed(
        "trees against chains",
        f"{rows_text([number for number, _ in bad])} of the table: a tree is up to {most:.0%} faster than "
        "the chain of the same steps and width, though it does no less; one of the two is noise or took "
        "another graph",
    )


def _work(row: Measurement) -> tuple[object, ...]:
    return (*_load(row), row.num_steps, row.num_draft_tokens)


def _setting(row: Measurement) -> tuple[object, ...]:
    return (*_work(row), row.topk)


def _load(row: Measurement) -> tuple[object, ...]:
    server = (row.sweep, row.engine, row.engine_version, row.model, row.draft_model, row.gpu, row.tp_size)
    return (*server, row.batch_size, row.context_tokens)


def _setting_apart(rows: Sequence[Measurement]) -> HealthCheck | None:
    """Cycles of one setting hardly depend on the data, so one that is much longer holds something else."""
    timed = [(row, us) for row in rows if row.num_steps and (us := row_cycle_us(row)) is not None]
    shortest: dict[tuple[object, ...], float] = {}
    for row, us in timed:
        shortest[_setting(row)] = min(us, shortest.get(_setting(row), us))
    bad = [
        (row.row, us, shortest[_setting(row)]) for row, us in timed if us > _APART * shortest[_setting(row)]
    ]
    if not bad:
        return None
    _, longest_us, least_us = max(bad, key=lambda one: one[1] / one[2])
    return _failed(
        "one setting, one cycle",
        f"{rows_text([number for number, *_ in bad])} of the table: a cycle of "
        f"{ms_from_us(longest_us):.1f} ms where the same setting has {ms_from_us(least_us):.1f} ms; it holds "
        "a prefill or waiting, or is of another server",
    )


def _phases_alone(rows: Sequence[Measurement]) -> HealthCheck | None:
    """Draft and verify times are of the whole phases, which only a cycle beside them shows."""
    bad = [
        row.row
        for row in rows
        if (row.draft_ms or row.verify_ms) and row.num_steps and row_cycle_us(row) is None
    ]
    if not bad:
        return None
    return _failed(
        "phases beside a cycle",
        f"{rows_text(bad)} of the table: draft and verify times with neither a cycle nor an accept length, "
        "so nothing shows that they are of whole phases: a draft time may be that of one step",
    )


def _counts(rows: Sequence[Measurement]) -> HealthCheck | None:
    """Tokens made less drafts accepted are the cycles, whatever a rate of proposed drafts says."""
    bad = []
    for row in rows:
        predicted, accepted = _PREDICTED.search(row.notes), _ACCEPTED.search(row.notes)
        if not predicted or not accepted or row.accept_length is None:
            continue
        cycles = int(predicted[1]) - int(accepted[1])
        if cycles > 0 and abs(int(predicted[1]) / cycles / row.accept_length - 1) > _ROUNDING:
            bad.append((row.row, row.accept_length, int(predicted[1]), int(accepted[1])))
    if not bad:
        return None
    number, length, tokens, kept = bad[0]
    return _failed(
        "accept length against counts",
        f"row {number} of the table: accept length {length:.2f}, but by its notes {tokens} tokens with "
        f"{kept} accepted drafts are {tokens - kept} cycles, {tokens / (tokens - kept):.2f} tokens each: "
        "fewer drafts were proposed than the step count, so the rate does not make the length",
    )


def _failed(check: str, detail: str) -> HealthCheck:
    return HealthCheck(check=check, ok=False, detail=detail)


def rows_text(numbers: Sequence[int]) -> str:
    """Return rows by their lines in the file, the first of many."""
    shown = ", ".join(map(str, numbers[:_MOST_NAMED]))
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"{'row' if len(numbers) == 1 else 'rows'} {shown}{more}"
