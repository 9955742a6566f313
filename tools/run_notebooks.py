"""Runs the text notebooks (percent format) and writes executed copies beside them, without jupyter.

    python tools/run_notebooks.py notebooks/*.py

Cells run in one namespace, in order, from the folder of the repository. A cell's last expression is shown:
a figure as a PNG, a frame as a table, all else as text. The copies hold nothing that differs from run to run
but the numbers.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MARK = "# %%"
_DOTS_PER_INCH = 80  # of executed copies: they are committed
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Cell:
    """One cell of a text notebook; `line` is its first, counted from 1."""

    markdown: bool
    source: str
    line: int


def cells_of(text: str) -> Iterator[Cell]:
    """Yield the cells of a percent-format notebook; what stands before the first mark is none."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(_MARK)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        markdown = "[markdown]" in lines[start]
        body = lines[start + 1 : end]
        if markdown:
            body = [line.removeprefix("#").removeprefix(" ") for line in body]
        yield Cell(markdown, "\n".join(body).strip("\n"), start + 2)


def run_cell(cell: Cell, namespace: dict[str, Any], name: str) -> tuple[str, Any]:
    """Run one code cell; return what it printed and the value of its last expression, None without one."""
    tree = ast.parse("\n" * (cell.line - 1) + cell.source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    return printed.getvalue(), value


def run_text(text: str, name: str) -> Iterator[tuple[Cell, str, Any]]:
    """Run a notebook's cells in order and yield each with what it printed and showed."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells_of(text):
        yield (cell, "", None) if cell.markdown else (cell, *run_cell(cell, namespace, name))


def executed(text: str, name: str) -> dict[str, Any]:
    """Run a notebook and return it as an nbformat 4.5 object with its outputs."""
    made: list[dict[str, Any]] = []
    count = 0
    for number, (cell, printed, value) in enumerate(run_text(text, name)):
        common = {"id": f"cell-{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)}
        if cell.markdown:
            made.append({"cell_type": "markdown", **common})
            continue
        count += 1
        outputs = [_stream(printed)] if printed else []
        if value is not None:
            outputs.append(_result(value, count))
        made.append({"cell_type": "code", "execution_count": count, "outputs": outputs, **common})
    metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _stream(printed: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}


def _result(value: Any, count: int) -> dict[str, Any]:
    """Return a value as jupyter would show it."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "savefig"):
        from toolkit.figures.saving import figure_bytes

        png = figure_bytes(value, "png", dots_per_inch=_DOTS_PER_INCH)
        data = {"image/png": base64.b64encode(png).decode(), "text/plain": ["<Figure>"]}
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
        if hasattr(value, "to_string"):  # a frame's repr leaves columns out
            data["text/plain"] = value.to_string().splitlines(keepends=True)
    return {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}


def main(paths: list[str]) -> None:
    """Run every notebook that is named and write NAME.ipynb beside NAME.py."""
    for path in map(Path, paths):
        notebook = executed(path.read_text(encoding="utf-8"), path.name)
        copy = path.with_suffix(".ipynb")
        copy.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{copy}: {copy.stat().st_size / 1000:.0f} kB")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
