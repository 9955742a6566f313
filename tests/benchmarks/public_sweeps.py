"""Public sweeps, each fitted on two settings at each batch size, against a straight line through them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from tests.benchmarks.points import Point
from toolkit.api import inspect_runs, read_runs
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Question, Scenario

PROTOCOLS = ("two smallest", "extremes")
Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration of a sweep; None is not said."""

    num_steps: int
    topk: int | None
    num_draft_tokens: int | None
    batch_size: int
    context_tokens: int | None

    @property
    def chain(self) -> bool:
        return self.topk in (None, 1) and self.num_draft_tokens in (None, self.num_steps + 1)


@dataclass(frozen=True, slots=True)
class Group:
    """The settings of one sweep at one batch size and context: cycle in ms and accept length of each."""

    sweep: str
    of_class: str
    rows: dict[Setting, tuple[float, float | None]]
    order: tuple[Setting, ...]

    def fitted_on(self, protocol: str) -> tuple[Setting, Setting]:
        return self.order[0], self.order[1 if protocol == "two smallest" else -1]


def read_sweeps(folder: Path) -> tuple[list[Row], list[Group]]:
    """Return all rows, and the groups with three step counts or more."""
    rows = list(csv.DictReader((folder / "measurements.csv").open(newline="", encoding="utf-8")))
    meta = list(csv.DictReader((folder / "sweeps.csv").open(newline="", encoding="utf-8")))
    classes = {row["sweep"]: row["class"] for row in meta}
    by: dict[tuple[str, int, int | None], dict[Setting, list[Row]]] = defaultdict(dict)
    for row in rows:
        at = _setting(row)
        if at is not None and at.num_steps > 0:
            by[row["sweep"], at.batch_size, at.context_tokens].setdefault(at, []).append(row)
    found = []
    for (sweep, _, _), settings in by.items():
        timed = {at: one for at, same in settings.items() if (one := _level(same)) is not None}
        chains = {at for at in timed if at.chain}
        pool = chains if len({at.num_steps for at in chains}) >= 3 else set(timed)
        first: dict[int, Setting] = {}
        for at in sorted(pool, key=lambda one: (one.num_steps, not one.chain, one.num_draft_tokens or 0)):
            first.setdefault(at.num_steps, at)
        if len(first) >= 3:
            found.append(Group(sweep, classes[sweep], timed, tuple(first[steps] for steps in sorted(first))))
    return rows, found


def forecasts(
    rows: list[Row], groups: list[Group], protocol: str, folder: Path
) -> Iterator[tuple[Group, Setting, Point]]:
    """Fit each sweep on two settings of each of its groups, and plain rows, and forecast the others."""
    by_sweep: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_sweep[group.sweep].append(group)
    for number, (sweep, own) in enumerate(by_sweep.items()):
        kept = {at for group in own for at in group.fitted_on(protocol)}
        places = {(at.batch_size, at.context_tokens) for group in own for at in group.rows}
        path = folder / f"{number}-{protocol.replace(' ', '-')}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(row for row in rows if row["sweep"] == sweep and _belongs(row, kept, places))
        model = fit_cost_model(inspect_runs(read_runs([path])))
        for group in own:
            for at in group.rows.keys() - set(group.fitted_on(protocol)):
                yield group, at, _point(model, group, at, protocol)


def _point(model: CostModel, group: Group, at: Setting, protocol: str) -> Point:
    first, second = group.fitted_on(protocol)
    asked = predict(model, Question(scenarios=(_scenario(at),), anyway=True)).candidates[0].cycle_ms
    assert asked.value is not None and asked.lo is not None and asked.hi is not None
    slope = (group.rows[second][0] - group.rows[first][0]) / (second.num_steps - first.num_steps)
    return Point(
        kind="chain" if at.chain else "tree",
        measured_ms=group.rows[at][0],
        value_ms=asked.value,
        lo_ms=asked.lo,
        hi_ms=asked.hi,
        null_ms=group.rows[first][0] + slope * (at.num_steps - first.num_steps),
    )


def regrets(groups: list[Group], found: list[tuple[Group, Setting, Point]]) -> tuple[float, float]:
    """Return the mean throughput lost by what the forecasts would choose, and what the line would."""
    points = {(id(group), at): point for group, at, point in found}
    lost: list[tuple[float, float]] = []
    for group in groups:
        lengths = {at: length for at, (_, length) in group.rows.items() if length}
        if len(lengths) < 2:
            continue
        real = {at: length / group.rows[at][0] for at, length in lengths.items()}
        ours, lines = {}, {}
        for at, length in lengths.items():
            point = points.get((id(group), at))  # what was fitted on is known
            ours[at] = length / (point.value_ms if point else group.rows[at][0])
            lines[at] = length / ((point.null_ms if point else None) or group.rows[at][0])
        best = max(real.values())
        lost.append(
            (
                1 - real[max(ours, key=ours.__getitem__)] / best,
                1 - real[max(lines, key=lines.__getitem__)] / best,
            )
        )
    return fmean(one for one, _ in lost), fmean(other for _, other in lost)


def _belongs(row: Row, kept: set[Setting], places: set[tuple[int, int | None]]) -> bool:
    at = _setting(row)
    if at is None:
        return False
    if at.num_steps == 0:
        return (at.batch_size, at.context_tokens) in places
    return at in kept and bool(row["cycle_ms"])


def _scenario(at: Setting) -> Scenario:
    return Scenario(
        row=1,
        num_steps=at.num_steps,
        num_draft_tokens=at.num_draft_tokens,
        topk=at.topk,
        batch_size=at.batch_size,
        context_tokens=at.context_tokens,
        accept_length=2.0,
    )


def _setting(row: Row) -> Setting | None:
    names = ("num_steps", "topk", "num_draft_tokens", "batch_size", "context_tokens")
    values = [int(float(row[name])) if row[name] else None for name in names]
    if values[0] is None or values[3] is None:
        return None
    return Setting(values[0], values[1], values[2], values[3], values[4])


def _level(rows: list[Row]) -> tuple[float, float | None] | None:
    """Return the median cycle in ms and the mean accept length of a setting's rows; None without a cycle."""
    cycles = [float(row["cycle_ms"]) for row in rows if row["cycle_ms"]]
    lengths = [float(row["accept_length"]) for row in rows if row["accept_length"]]
    return (median(cycles), fmean(lengths) if lengths else None) if cycles else None
