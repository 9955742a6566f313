"""Tables for terminals: fixed to 80 columns unless the terminal is wider, plain when not a terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

_WIDTH = 80  # columns that every terminal has
_WIDEST = 120


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    """Return a table; columns whose name starts with '<' are aligned left, others right."""
    grid = Table(
        title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 0), expand=False
    )
    for name in columns:
        left = name.startswith("<")
        grid.add_column(name.lstrip("<"), justify="left" if left else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid


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


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with fixed digits, a dash for an unknown one."""
    return "-" if value is None else f"{value:,.{digits}f}"


def whole(value: float | int | None) -> str:
    """Return a whole number, a dash for an unknown one."""
    return "-" if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """Return a fraction as a percentage, a dash for an unknown one."""
    return "-" if value is None else f"{value:.1%}"
