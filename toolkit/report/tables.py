"""Tables for terminals: fixed to 80 columns unless the terminal is wider, plain when not a terminal."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_WIDTH = 80  # columns that every terminal has
_WIDEST = 120
_LEAST_NAME = 8


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, *, wraps: str = ""
) -> Table:
    """Return a table; columns whose name starts with '<' are aligned left, others right.

    Text of the column `wraps` goes on in the next line where it does not fit; others are cut.
    """
    grid = Table(
        title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 0), expand=False
    )
    for name in columns:
        left = name.startswith("<")
        grid.add_column(name.lstrip("<"), justify="left" if left else "right", no_wrap=name != wraps)
    for row in rows:
        grid.add_row(*row)
    return grid


def marked(mark: str, text: str, style: str = "") -> Table:
    """Return a text behind a mark; its further lines begin under its first word."""
    grid = Table.grid(padding=(0, 1), pad_edge=False)
    grid.add_column(no_wrap=True, min_width=len(mark))
    grid.add_column()
    grid.add_row(Text(mark, style=style), Text(text, style=style))
    return grid


def with_short_names(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return rows whose first cell, a name, is cut at its start so that the others fit 80 columns whole."""
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    room = max(_WIDTH - sum(widths[1:]) - len(widths) - 1, _LEAST_NAME)
    return [[_cut_start(row[0], room), *row[1:]] for row in rows]


def _cut_start(name: str, width: int) -> str:
    return name if len(name) <= width else "…" + name[-(width - 1) :]


def rendered(parts: Iterable[RenderableType]) -> str:
    """Return parts as text, coloured only when standard output is a terminal that wants colour."""
    terminal = sys.stdout.isatty()
    width = min(max(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH), _WIDEST) if terminal else _WIDTH
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=terminal,
        no_color=not terminal or bool(os.environ.get("NO_COLOR")),
        highlight=False,
        soft_wrap=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def single_spaced(text: str) -> str:
    """Return text without two empty lines in a row: a table ends with one, the next begins with one."""
    return re.sub(r"\n{3,}", "\n\n", text)


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with fixed digits, a dash for an unknown one."""
    return "-" if value is None else f"{round(value, digits) + 0.0:,.{digits}f}"  # no minus before a zero


def whole(value: float | int | None) -> str:
    """Return a whole number, a dash for an unknown one."""
    return number(value, 0)


def counted(value: int | None, name: str) -> str:
    """Return a number of things, such as 1 step and 2 steps; a dash for an unknown number."""
    return f"{whole(value)} {name}{'' if value == 1 else 's'}"


def signed_share(value: float) -> str:
    """Return a signed fraction as a percentage; what rounds to nothing has no minus."""
    return f"{round(value, 3) + 0.0:+.1%}"


def share(value: float | None) -> str:
    """Return a fraction as a percentage, a dash for an unknown one."""
    return "-" if value is None else f"{round(value, 3) + 0.0:.1%}"
