"""Whether the recordings can be trusted: checks over all runs, and every warning once."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.report.alike import alike_together
from toolkit.report.page.figure import Numbers
from toolkit.schema.inspection import RunReport
from toolkit.schema.report import ReportFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """A check that a run failed."""

    run: str
    check: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the head of the page says: `unread` are runs that ended early."""

    runs: int
    passed: int
    unknown: int
    failed: tuple[FailedCheck, ...]
    by_check: Numbers
    warnings: tuple[str, ...]
    ended_early: tuple[str, ...]


def health_of(facts: ReportFacts) -> Health:
    """Return checks and warnings of everything that was read."""
    runs = facts.inspection.runs
    checks = [(run.run, check) for run in runs for check in run.health]
    fitted = () if facts.model is None else facts.model.warnings
    of_groups = tuple(text for answer in facts.answers for text in answer.group.warnings)
    return Health(
        runs=len(runs),
        passed=sum(check.ok is True for _, check in checks),
        unknown=sum(check.ok is None for _, check in checks),
        failed=tuple(
            FailedCheck(run=run, check=check.check, detail=check.detail)
            for run, check in checks
            if check.ok is False
        ),
        by_check=_by_check(runs),
        warnings=tuple(alike_together((*facts.inspection.warnings, *fitted, *of_groups))),
        ended_early=tuple(f"{run.run}: {run.ended_early}" for run in runs if run.ended_early),
    )


def _by_check(runs: tuple[RunReport, ...]) -> Numbers:
    counts: dict[str, list[int]] = {}
    for run in runs:
        for check in run.health:
            row = counts.setdefault(check.check, [0, 0, 0])
            row[2 if check.ok is None else int(not check.ok)] += 1
    rows = tuple((check, *map(str, row)) for check, row in counts.items())
    return Numbers(columns=("check", "passed", "failed", "cannot tell"), rows=rows)


def runs_table(runs: tuple[RunReport, ...]) -> Numbers:
    """Return what was read, a run a row."""
    rows = tuple(
        (
            run.run,
            " ".join(part for part in (run.engine, run.engine_version) if part) or "-",
            run.model or "-",
            "-" if run.tp_size is None else str(run.tp_size),
            "-" if run.num_steps is None else str(run.num_steps),
            ", ".join(run.sources) or ("calibration" if run.calibration else "-"),
            str(len(run.configurations)),
            f"{sum(cell.cycles for cell in run.configurations):,}",
            str(sum(check.ok is False for check in run.health)) if run.health else "-",
        )
        for run in runs
    )
    columns = ("run", "engine", "model", "TP", "steps", "from", "configurations", "cycles", "failed checks")
    return Numbers(columns=columns, rows=rows)
