"""How accurate fits and forecasts are on what they never saw; `make accuracy` prints it."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

from tests.benchmarks import few_runs
from tests.benchmarks.all_reduce import changed, changed_lines
from tests.benchmarks.defective_tables import verdict_lines, verdicts
from tests.benchmarks.draft_tp import outcome_lines, outcomes
from tests.benchmarks.founding_case import statement_lines, statements
from tests.benchmarks.points import Point, coverage_text, errors_text, null_text
from tests.benchmarks.public_sweeps import PROTOCOLS, forecasts, read_sweeps, regrets
from tests.benchmarks.recorded_folds import KINDS, left_out, recorded_groups, restart_spread

ROOT = Path(__file__).resolve().parents[2]
_ENOUGH = 8  # targets of a class that is shown by itself


def main() -> None:
    """Print every table."""
    warnings.simplefilter("ignore")
    pooled = [*_recorded(), *_public()]
    _say("## All left-out configurations, recorded and public\n", coverage_text(pooled), "")
    _say("## The draft at another TP, fitted without it\n")
    _say(*outcome_lines(list(outcomes(ROOT / "tests/data/draft-tp"))))
    _defective()
    _say("## The founding case, statement by statement\n")
    _say(*statement_lines(statements(ROOT / "tests/data/kimi-k2.5-tp8")))


def _recorded() -> list[Point]:
    _say("## Recorded runs, whole step counts or batch sizes left out\n")
    _say("| group | left out | lies | cells | mean | median | p90 | inside 90 % | median width | restarts |")
    _say("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    found: list[Point] = []
    groups = recorded_groups(ROOT / "traces")
    for (engine, tp_size), runs in groups.items():
        spread = restart_spread(runs)
        for axis in ("steps", "batch"):
            points = list(left_out(runs, axis))
            found += points
            for kind in KINDS:
                some = [point for point in points if point.kind == kind]
                if some:
                    restarts = "-" if spread is None else f"{100 * spread:.1f} %"
                    _say(f"| {engine}, TP {tp_size} | {axis} | {kind} | {errors_text(some)} | {restarts} |")
    _say("\n## NCCL in place of the engine's own all-reduce, fitted without it\n")
    _say(*changed_lines([one for runs in groups.values() for one in changed(runs)]), "")
    _say("## Whether speculation wins at TP 2, from TP 1 and two runs at TP 2\n")
    _say(*few_runs.verdict_lines(list(few_runs.verdicts(groups))), "")
    return found


def _public() -> list[Point]:
    rows, groups = read_sweeps(ROOT / "tests/data/public")
    pooled: list[Point] = []
    for protocol in PROTOCOLS:
        with tempfile.TemporaryDirectory() as folder:
            found = list(forecasts(rows, groups, protocol, Path(folder)))
        _say(f"## Public sweeps, fitted on the {protocol} step counts\n")
        _say("| class | shape | targets | median, line's | p90, line's | ratios |")
        _say("| --- | --- | ---: | ---: | ---: | ---: |")
        classes: dict[tuple[str, str], list[Point]] = defaultdict(list)
        for group, _, point in found:
            classes[group.of_class, point.kind].append(point)
            classes["all", point.kind].append(point)
        for (name, kind), points in sorted(classes.items(), key=lambda one: (one[0][0] == "all", one[0])):
            if len(points) >= _ENOUGH:
                _say(f"| {name} | {kind} | {null_text(points)} |")
        ours, lines = regrets(groups, found)
        points = [point for _, _, point in found]
        _say(f"\nRegret of the chosen setting: {100 * ours:.2f} %, the line's {100 * lines:.2f} %. ")
        _say(coverage_text(points) + ".\n")
        pooled += points
    return pooled


def _defective() -> None:
    _say("## Defective public tables: what is said of each\n")
    with tempfile.TemporaryDirectory() as folder:
        found = list(verdicts(ROOT / "tests/data/public", Path(folder)))
    _say(*verdict_lines(found))
    silent = sum(one.answer == "silent" for one in found)
    _say(f"\n{len(found) - silent} of {len(found)} tables are refused or warned about.\n")


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
