"""measurements.csv: tables of benchmark numbers, one measured configuration a row."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError
from toolkit.ingest.text_files import read_text_lines
from toolkit.schema.measurement import Measurement

_TEXT = {
    "sweep": "sweep",
    "engine": "engine",
    "engine_version": "engine_version",
    "hardware": "gpu",
    "target": "model",
    "draft": "draft_model",
    "notes": "notes",
}
# Columns with a whole number, and the least that makes sense (plain decoding: 0 steps, 1 token).
_LEAST_COUNT = {
    "tp_size": 1,
    "draft_tp": 1,
    "num_steps": 0,
    "topk": 1,
    "num_draft_tokens": 1,
    "batch_size": 1,
    "context_tokens": 0,
}
# Columns with a number that must be above zero, but for draft_ms, which plain decoding may give as 0.
_LEAST_VALUE = {"accept_length": 1.0, "tok_s": 0.0, "cycle_ms": 0.0, "draft_ms": 0.0, "verify_ms": 0.0}
# Above these a cell is a slip of the keyboard or of the unit: a cycle of a week, a billion tokens a second.
_MOST_COUNT = 10_000_000
_MOST_VALUE = 1e9
_TELLING = ("num_steps", "num_draft_tokens", "batch_size", "accept_length", "tok_s", "cycle_ms")


class _BadCellError(ValueError):
    """A cell that cannot be; its text is the reason."""


def is_measurement_table(header: str | Sequence[str]) -> bool:
    """Say whether a table's header names at least two columns that make it one of measurements."""
    names = _split_header(header)[0] if isinstance(header, str) else [_name(cell) for cell in header]
    return len(set(_TELLING).intersection(names)) >= 2


def read_measurements(path: Path) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the rows of a table and sentences on the rows that were left out.

    Rows need no results: a table of scenarios is read alike. A row with a cell that cannot be (text
    or a negative where a number belongs, more tokens accepted than verified) is left out whole.
    """
    lines, damage = read_text_lines(path)
    start = next((place for place, line in enumerate(lines) if line.strip()), None)
    if start is None:
        return (), damage or (f"{path} is empty",)
    names, delimiter = _split_header(lines[start])
    if not is_measurement_table(names):
        has = [name for name in _TELLING if name in names]
        raise BadInputError(
            f"{path}: line {start + 1} names {f'only {has[0]}' if has else 'none'} of the columns "
            f"{', '.join(_TELLING)}, of which a table of measurements has two at least; add or rename columns"
        )
    rows: list[Measurement] = []
    faults = list(damage)
    for number, cells in _rows(lines[start + 1 :], start + 2, delimiter):
        if isinstance(cells, str):
            faults.append(f"{path}: line {number}: {cells}; what follows could not be read")
        elif any(cell.strip() for cell in cells) and not cells[0].lstrip().startswith("#"):
            try:
                rows.append(_row(names, cells, number))
            except _BadCellError as error:
                faults.append(f"{path}: line {number}: {error}; the row is left out")
    return tuple(rows), tuple(faults)


def _split_header(line: str) -> tuple[list[str], str]:
    """Return the column names and the delimiter that makes most of them known."""
    best: tuple[list[str], str] = ([], ",")
    most = -1
    for delimiter in ",;\t":
        try:
            names = [_name(cell) for cell in next(csv.reader([line], delimiter=delimiter), [])]
        except csv.Error:  # a cell of more than 128 KB, a carriage return inside the line: no table
            continue
        known = len(set(_TELLING).intersection(names))
        if known > most:
            best, most = (names, delimiter), known
    return best


def _name(cell: str) -> str:
    return cell.strip().strip("\ufeff").lower()


def _rows(lines: list[str], first: int, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each row with the line it starts on; a str instead of cells says why reading stopped."""
    table = csv.reader((line + "\n" for line in lines), delimiter=delimiter)
    while True:
        number = first + table.line_num
        try:
            cells = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, str(error)
            return
        yield number, cells


def _row(names: list[str], cells: list[str], number: int) -> Measurement:
    while len(cells) > len(names) and not cells[-1].strip():
        cells.pop()
    if len(cells) != len(names):
        raise _BadCellError(f"it has {len(cells)} cells where the header has {len(names)}")
    by_name = dict(zip(names, (cell.strip() for cell in cells), strict=True))
    found: dict[str, Any] = {field: by_name[name] for name, field in _TEXT.items() if by_name.get(name)}
    if "engine" in found:
        found["engine"] = found["engine"].lower()
    for name, least in _LEAST_COUNT.items():
        if by_name.get(name):
            found[name] = _whole(name, by_name[name], least)
    for name, lowest in _LEAST_VALUE.items():
        if by_name.get(name):
            found[name] = _above(name, by_name[name], lowest)
    _check_width(found)
    return Measurement(row=number, **found)


def _number(name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise _BadCellError(f"column {name} holds {cell[:40]!r}, not a number") from None
    if not math.isfinite(value) or "_" in cell:  # float() takes 1_000
        raise _BadCellError(f"column {name} holds {cell[:40]!r}, not a number")
    return value


def _whole(name: str, cell: str, least: int) -> int:
    value = _number(name, cell)
    if value != int(value) or value < least:
        raise _BadCellError(f"column {name} holds {cell[:40]}, not a whole number of at least {least}")
    if value > _MOST_COUNT:
        raise _BadCellError(f"column {name} holds {cell[:40]}, which is above {_MOST_COUNT}")
    return int(value)


def _above(name: str, cell: str, lowest: float) -> float:
    value = _number(name, cell)
    zero_is_wrong = name not in ("accept_length", "draft_ms")
    if value < lowest or (zero_is_wrong and value == 0):
        bound = f"at least {lowest:g}" if not zero_is_wrong else "above 0"
        raise _BadCellError(f"column {name} holds {cell[:40]}, which should be {bound}")
    if value > _MOST_VALUE:
        raise _BadCellError(f"column {name} holds {cell[:40]}, which is above {_MOST_VALUE:g}")
    return value


def _check_width(found: dict[str, Any]) -> None:
    """Raise when a row accepts more tokens per cycle than it verifies (the root is one of them)."""
    length, width = found.get("accept_length"), found.get("num_draft_tokens")
    if length is not None and width is not None and length > width:
        raise _BadCellError(
            f"column accept_length holds {length:g}, more than the {width} tokens verified per cycle "
            "(num_draft_tokens)"
        )
