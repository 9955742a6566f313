"""Published tables that contradict themselves: what the toolkit says of each."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.api import inspect_paths
from toolkit.errors import ToolkitError, UndeterminedError
from toolkit.model.fit import fit_cost_model

_NEIGHBOURS = ("outlier_same_server", "window_contains_prefill")  # defects that only other rows show
_ASSUMED = (
    "no configuration was run twice",
    "timed around the engine's calls only",
    "draft models are fitted",
)
Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One defective table: `answer` is "refused", "warned" or "silent", `said` the sentences."""

    table: str
    rows: int
    defects: tuple[str, ...]
    answer: str
    said: tuple[str, ...]


def verdicts(folder: Path, scratch: Path) -> Iterator[Verdict]:
    """Yield what the toolkit says of each table, its sound rows beside it where only they show the defect."""
    rows, sound = _read(folder / "defective.csv"), _read(folder / "measurements.csv")
    tables: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        tables[row["source"], row["target"]].append(row)
    for number, own in enumerate(tables.values()):
        defects = dict.fromkeys(row["reason_code"] for row in own)
        defects.pop("baseline_of_defective", None)
        sweeps = {row["sweep"] for row in own}
        beside = [row for row in sound if row["sweep"] in sweeps and set(defects) & set(_NEIGHBOURS)]
        path = scratch / f"table-{number}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(sound[0]), extrasaction="ignore")
            table.writeheader()
            table.writerows([*own, *beside])
        answer, said = _asked(path)
        yield Verdict(_named(own), len(own), tuple(defects), answer, said)


def _read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _named(rows: list[Row]) -> str:
    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    return sweeps[0] if len(sweeps) == 1 else f"{sweeps[0]} to {sweeps[-1]}"


def _asked(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return how the table was taken, with the file's own name left out of what was said."""
    said: list[str] = []
    answer = "warned"
    try:
        found = inspect_paths([path])
        said += found.warnings
        model = fit_cost_model(found, draws=20)
        said += [*model.warnings, *(text for group in model.groups for text in group.warnings)]
    except (ToolkitError, UndeterminedError) as error:
        said.append(str(error))
        answer = "refused"
    told = dict.fromkeys(text for text in said if not any(usual in text for usual in _ASSUMED))
    return answer if told else "silent", tuple(text.replace(f"{path.parent}/", "") for text in told)


def verdict_lines(found: Iterable[Verdict]) -> Iterator[str]:
    """Yield each table with its defect and what was said of it."""
    for one in found:
        yield f"- {one.table}, {one.rows} rows ({', '.join(one.defects)}): {one.answer}"
        yield from (f"  - {text}" for text in one.said)
