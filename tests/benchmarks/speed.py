"""How fast large traces are read, and in how much memory, beside the standard library and two other readers.

`make bench` makes four ranks of about 202 MB with Python stacks in build/bench/, installs the others where
they can be had, and writes the table of docs/performance.md (`--write`). `python -m tests.benchmarks.speed
FOLDER` takes the traces of a folder instead. All programs run in turns, so that a busy machine slows all.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.large_ranks import make_ranks
from tests.benchmarks.measured import Measured, measured
from tests.benchmarks.rivals import HTA, TRACELENS, Rival, installed

ROOT = Path(__file__).parents[2]
_PAGE = ROOT / "docs" / "performance.md"
_BEGIN, _END = "<!-- table: make bench -->\n", "<!-- end of table -->\n"
_OFTEN_S, _SELDOM_S = 0.02, 0.2
_LARGE = 10  # times as long as the first rank
_JSON = "import json, sys\nwith open(sys.argv[1], 'rb') as file:\n    json.loads(file.read())"
_LIMITS = {"one": (1 / 3, 250.0), "ranks": (1.3, 450.0)}  # of the time of json.loads, and MB
_LARGE_LIMIT = 1.3  # of the memory of the first rank


@dataclass(frozen=True, slots=True)
class Row:
    """What one program took; `ratio` is the median over turns of its time by that of json.loads beside it."""

    who: str
    what: str
    seconds: float  # the least
    ratio: float
    peak_mb: float | None


def _toolkit(*arguments: str | Path) -> list[str]:
    code = "import sys; from toolkit.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, "inspect", *map(str, arguments)]


def _ours(paths: Sequence[Path], packed: Path) -> dict[str, list[str]]:
    return {
        "one": _toolkit("--no-cache", paths[0]),
        "packed": _toolkit("--no-cache", packed),
        "again": _toolkit(paths[0]),
        "ranks": _toolkit("--no-cache", *paths),
        "ranks again": _toolkit(*paths),
    }


def _turns(commands: dict[str, list[str]], turns: int, cache: str) -> dict[str, list[Measured]]:
    """Run all commands in turns, then each once more for its memory, which is looked at often."""
    env = {**os.environ, "XDG_CACHE_HOME": cache}
    done: dict[str, list[Measured]] = {name: [] for name in commands}
    for turn in range(turns + 1):
        for name, command in commands.items():
            one = measured(command, every_s=_OFTEN_S if turn == turns else None, env=env)
            if one.failed:
                raise SystemExit(f"{name}: {one.failed}")
            done[name].append(one)
            _tell(f"{name}: {one.seconds:.2f} s {_mb(one.peak_mb)}")
    return done


def _row(who: str, what: str, own: Sequence[Measured], base: Sequence[Measured]) -> Row:
    timed = own[:-1] or own  # the last one was slowed by looking at its memory
    ratios = [one.seconds / beside.seconds for one, beside in zip(timed, base, strict=False)]
    return Row(who, what, min(one.seconds for one in timed), median(ratios), own[-1].peak_mb)


def _our_rows(done: dict[str, list[Measured]], ranks: int) -> list[Row]:
    base = done["json"]
    says = {
        "json": ("json.loads", "one rank: parse it, nothing else"),
        "one": ("toolkit inspect --no-cache", "one rank"),
        "packed": ("toolkit inspect --no-cache", "one rank, .json.gz"),
        "again": ("toolkit inspect", "one rank, second look"),
        "ranks": ("toolkit inspect --no-cache", f"{ranks} ranks, collectives matched"),
        "ranks again": ("toolkit inspect", f"{ranks} ranks, second look"),
    }
    return [_row(*says[name], own, base) for name, own in done.items()]


def _rival_rows(rival: Rival, paths: Sequence[Path], base: float, said: list[str]) -> Iterator[Row]:
    """Yield what a rival took, each task once; sentences on it are added to `said`."""
    source = os.environ.get(rival.name.upper())
    python, version = installed(rival, ROOT / "build" / "rivals", source)
    if python is None:
        said.append(f"{rival.name} is left out: pip could not install it ({version}).")
        return
    for task in rival.tasks:
        given = paths if task.all_ranks else paths[:1]
        one = measured([str(python), "-c", task.program, *map(str, given)], every_s=_SELDOM_S)
        _tell(f"{rival.name} {task.says}: {one.seconds:.1f} s {_mb(one.peak_mb)}")
        if one.failed:
            said.append(f"{rival.name} {version} failed to {task.says}: {one.failed}.")
        else:
            yield Row(f"{rival.name} {version}", task.says, one.seconds, one.seconds / base, one.peak_mb)


def _tell(progress: str) -> None:
    sys.stderr.write(f"{progress}\n")


def _mb(peak: float | None) -> str:
    return "" if peak is None else f"{peak:,.0f} MB"


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| program | what it is asked | s | times json.loads | peak MB |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row.who} | {row.what} | {row.seconds:.2f} | {row.ratio:.2f} | {_mb(row.peak_mb)[:-3]} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _verdicts(rows: dict[str, Row], large_mb: float | None) -> Iterator[str]:
    """Yield a sentence on each bar."""
    for name, (ratio, megabytes) in _LIMITS.items():
        row = rows[name]
        met = row.ratio <= ratio and (row.peak_mb or 0.0) <= megabytes
        yield (
            f"{'Met' if met else 'Not met'}: {row.what} in at most {ratio:.2f} of the time of json.loads and "
            f"{megabytes:.0f} MB: {row.ratio:.2f} and {_mb(row.peak_mb)}."
        )
    if large_mb is not None and (one := rows["one"].peak_mb):
        yield (
            f"{'Met' if large_mb <= _LARGE_LIMIT * one else 'Not met'}: a rank {_LARGE} times as long in at "
            f"most {_LARGE_LIMIT} times the memory: {large_mb / one:.2f} ({_mb(large_mb)})."
        )


def _large_mb(folder: Path, given: Path | None, first: Path) -> float | None:
    """Return the peak memory for a rank ten times as long as the first."""
    if given is None:
        (given,) = make_ranks(folder / "large", 1, _LARGE * first.stat().st_size / 1e6)
    one = measured(_toolkit("--no-cache", given), every_s=_OFTEN_S)
    if one.failed:
        raise SystemExit(f"{given}: {one.failed}")
    return one.peak_mb


def _packed(path: Path, folder: str) -> Path:
    packed = Path(folder) / f"{path.name}.gz"
    with open(path, "rb") as plain, gzip.open(packed, "wb", compresslevel=6) as file:
        shutil.copyfileobj(plain, file, 1 << 20)
    return packed


def _machine(paths: Sequence[Path]) -> str:
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    sizes = ", ".join(f"{path.stat().st_size / 1e6:.0f}" for path in paths)
    return (
        f"Python {platform.python_version()}, {cores} cores, load {load:.1f} at the start (other work slows "
        f"what uses several cores most),\nfiles of {sizes} MB.\n"
    )


def _write(text: str) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    _PAGE.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="with a trace of each rank (default: made)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--large", type=Path, help="a trace ten times as long (default: made)")
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--write", action="store_true", help="the table of docs/performance.md")
    asked = parser.parse_args()
    build = ROOT / "build" / "bench"
    paths = sorted(asked.folder.glob("*.trace.json")) if asked.folder else make_ranks(build / "ranks")
    said: list[str] = [_machine(paths)]
    with tempfile.TemporaryDirectory() as folder:
        commands = {"json": [sys.executable, "-c", _JSON, str(paths[0])]}
        commands |= _ours(paths, _packed(paths[0], folder))
        done = _turns(commands, asked.turns, folder)
    rows = dict(zip(done, _our_rows(done, len(paths)), strict=True))
    said += _verdicts(rows, _large_mb(build, asked.large, paths[0]))
    every = list(rows.values())
    for rival in () if asked.no_rivals else (HTA, TRACELENS):
        every += _rival_rows(rival, paths, rows["json"].seconds, said)
    text = _table(every) + "\n" + said[0] + "".join(f"\n- {line}" for line in said[1:]) + "\n"
    sys.stdout.write(text)
    if asked.write:
        _write(text)


if __name__ == "__main__":
    main()
