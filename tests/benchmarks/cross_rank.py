"""How near traces of several ranks come to the truth where the profiler lost kernels and clocks are off.

`python -m tests.benchmarks.cross_rank` makes traces, `... FOLDER...` reads folders of a trace generator that
writes truth.json beside its traces. Bars: phase medians within 0.1 %, wire within 2 %, waits within 5 %,
straggler named.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.made_trace import ALL_REDUCES, WIRE_US, Cycles, Engine, eagle_cycles
from toolkit.api import inspect_paths
from toolkit.schema.inspection import Configuration

_LEAST_US = 0.3  # of a phase: what a lost kernel took nobody can know better
BARS = {"phase": 0.001, "wire": 0.02, "wait": 0.05}


@dataclass(frozen=True, slots=True)
class Truth:
    """What was written, in us: `phases[name][cycle][rank]`, `waits[name][cycle][rank]`, `wires[name]`."""

    phases: dict[str, list[list[float]]]
    waits: dict[str, list[list[float]]]
    wires: dict[str, list[float]]
    straggler: int | None


@dataclass(frozen=True, slots=True)
class Errors:
    """Worst relative errors of one folder; None where nothing was given."""

    phase: float | None
    wire: float | None
    wait: float | None
    matched: float
    named: bool

    @property
    def passed(self) -> bool:
        """Whether every bar is met."""
        found = {"phase": self.phase, "wire": self.wire, "wait": self.wait}
        return self.named and all(error is not None and error <= BARS[name] for name, error in found.items())


def errors_of(paths: Sequence[Path], truth: Truth) -> Errors:
    """Inspect traces and hold them against what was written."""
    (run,) = inspect_paths(paths).runs
    cell = max(run.configurations, key=lambda one: one.cycles)
    matched = [one.matched_fraction for one in cell.collectives if one.matched_fraction is not None]
    return Errors(
        phase=_phase_error(cell, truth),
        wire=_wire_error(cell, truth),
        wait=_wait_error(cell, truth),
        matched=min(matched, default=0.0),
        named=_straggler(cell) == truth.straggler,
    )


def _phase_error(cell: Configuration, truth: Truth) -> float | None:
    worst = [0.0]
    for rank in cell.ranks:
        for name, cycles in truth.phases.items():
            found = rank.phases[name].graph_us if name in rank.phases else None
            if found is None:
                return None
            expected = median(by_rank[rank.tp_rank] for by_rank in cycles)
            worst.append(max(0.0, abs(found.median - expected) - _LEAST_US) / expected)
    return max(worst)


def _wire_error(cell: Configuration, truth: Truth) -> float | None:
    """Wire time of a whole cycle: ranks of the generator leave a collective up to 0.2 us apart."""
    expected = found = 0.0
    for name, wires in truth.wires.items():
        phase, _, op = name.partition(" ")
        rows = [one for one in cell.collectives if one.phase == phase and one.op == op]
        if not rows or any(one.wire_us is None for one in rows):
            return None
        count = sum(one.per_cycle for one in rows)
        expected += count * median(wires)
        found += sum(one.per_cycle * (one.wire_us or 0.0) for one in rows)
    return abs(found / expected - 1) if expected else None


def _wait_error(cell: Configuration, truth: Truth) -> float | None:
    """Waits of each rank in each phase, where they are more than a thousandth of the phase."""
    worst = [0.0]
    for rank in cell.ranks:
        for name, cycles in truth.waits.items():
            found = rank.phases[name].wait_us if name in rank.phases else None
            if found is None:
                return None
            expected = median(by_rank[rank.tp_rank] for by_rank in cycles)
            phase_us = median(by_rank[rank.tp_rank] for by_rank in truth.phases[name])
            worst.append(abs(found - expected) / max(expected, 0.05 * phase_us))
    return max(worst)


def _straggler(cell: Configuration) -> int | None:
    return cell.straggler.tp_rank if cell.straggler else None


def made(folder: Path, **how: Any) -> tuple[list[Path], Truth]:
    """Make traces with the faults of the bars; `how` goes to `Cycles`, `steps` and `layers` to the engine."""
    engine = Engine(steps=how.pop("steps", 3), layers=how.pop("layers", 16))
    count = how.pop("count", 15)
    written = eagle_cycles(Cycles(clocks_us=100, drift_ppm=5, steady=True, **how), count, engine)
    names = [name for name in ("draft", "verify", "draft_extend") if name in written.truth]
    wires = {f"{name} {op}": [WIRE_US] for name in names for op in ("all_reduce", "all_gather")}
    truth = Truth(
        phases={name: written.truth[name] for name in names},
        waits={name: written.waits[name] for name in names},
        wires=wires,
        straggler=written.slow,
    )
    return written.write(folder), truth


def read(folder: Path) -> tuple[list[Path], Truth]:
    """Return a generator's traces and its truth.json."""
    said = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    names = ("draft", "verify", "draft_extend")
    phases = {name: [[r[f"{name}_us"] for r in cycle["ranks"]] for cycle in said["cycles"]] for name in names}
    ranks = len(said["clock_off_us"])
    waits = {name: [[0.0] * ranks for _ in said["cycles"]] for name in names}
    wires: dict[str, list[float]] = {}
    ops = {"ar": "all_reduce", "ag": "all_gather"}
    for cycle, phase, _, kind, wire_us, waits_us in said["collectives"]:
        if phase not in waits:
            continue
        wires.setdefault(f"{phase} {ops[kind]}", []).append(wire_us)
        for rank, wait_us in enumerate(waits_us):
            waits[phase][cycle][rank] += wait_us
    straggler = said["args"]["straggler"]
    return sorted(folder.glob("*TP-*.trace.json*")), Truth(
        phases, waits, wires, straggler if straggler >= 0 else None
    )


def cases(folders: Sequence[str]) -> Iterator[tuple[str, list[Path], Truth]]:
    """Yield name, traces and truth of each case."""
    for folder in folders:
        yield Path(folder).name, *read(Path(folder))
    if folders:
        return
    with tempfile.TemporaryDirectory() as temporary:
        for ranks in (2, 4, 8):
            for number, kind in enumerate(ALL_REDUCES):
                how = {"lose": 0.005, "slow": ranks - 1, "all_reduce": kind, "seed": 7 + number}
                name = f"tp{ranks} {kind}"
                yield name, *made(Path(temporary) / name.replace(" ", "-"), ranks=ranks, **how)


def _shown(error: float | None) -> str:
    return "not given" if error is None else f"{error:.2%}"


def lines(folders: Sequence[str]) -> Iterator[str]:
    """Yield the table; the last line counts the cases that meet every bar."""
    yield "| case | phases (0.1 %) | wire (2 %) | waits (5 %) | matched | straggler | bars |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | --- |"
    passed = []
    for name, paths, truth in cases(folders):
        found = errors_of(paths, truth)
        passed.append(found.passed)
        times = " | ".join(_shown(error) for error in (found.phase, found.wire, found.wait))
        named = "right" if found.named else "wrong"
        yield f"| {name} | {times} | {found.matched:.1%} | {named} | {'met' if found.passed else 'missed'} |"
    yield f"\n{sum(passed)} of {len(passed)} cases meet every bar"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines(sys.argv[1:]))
