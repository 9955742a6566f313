"""Notebooks run, say what they were committed with, and use what a reader may use."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
LIBRARY = re.compile(r"toolkit(\.errors|\.report)?")
by_name = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """Return tools/run_notebooks.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "tools" / "run_notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@by_name
def test_a_notebook_runs_and_shows_a_figure(
    notebook: Path, runner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = [value for _, _, value in runner.run_text(notebook.read_text("utf-8"), notebook.name)]
    assert any(hasattr(value, "savefig") for value in shown)
    assert any(hasattr(value, "to_string") for value in shown)


@by_name
def test_the_executed_copy_is_of_the_text_beside_it(notebook: Path, runner: ModuleType) -> None:
    copy = json.loads(notebook.with_suffix(".ipynb").read_text("utf-8"))
    written = [(cell["cell_type"] == "markdown", "".join(cell["source"])) for cell in copy["cells"]]
    assert written == [
        (cell.markdown, cell.source) for cell in runner.cells_of(notebook.read_text("utf-8"))
    ], "run `make notebooks`"
    assert all(cell["outputs"] is not None for cell in copy["cells"] if cell["cell_type"] == "code")


@by_name
def test_a_notebook_uses_public_functions_and_short_ones(notebook: Path) -> None:
    tree = ast.parse(notebook.read_text("utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [name for name in modules if name.split(".")[0] == "toolkit"]
    assert own and all(LIBRARY.fullmatch(name) for name in own)
    private = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in private if name.startswith("_")]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 10]


def test_the_executed_copies_are_small_and_name_no_machine() -> None:
    copies = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert [copy.stem for copy in copies] == [notebook.stem for notebook in NOTEBOOKS]
    assert sum(copy.stat().st_size for copy in copies) < 1_500_000
    assert not [copy for copy in copies if re.search(r"/(?:home|root|work|tmp)/\w", copy.read_text("utf-8"))]


def test_every_notebook_is_listed() -> None:
    text = (ROOT / "notebooks" / "README.md").read_text("utf-8")
    assert not [path.stem for path in NOTEBOOKS if f"({path.stem}.ipynb)" not in text]


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (
            "# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 1\nx\n",
            [(True, "# Title\n\ntext"), (False, "x = 1\nx")],
        ),
        ("before\n# %%\n1\n# %%\n", [(False, "1"), (False, "")]),
    ],
    ids=["text and code", "nothing before the first mark"],
)
def test_percent_cells_are_taken_apart(runner: ModuleType, text: str, cells: list[tuple[bool, str]]) -> None:
    assert [(cell.markdown, cell.source) for cell in runner.cells_of(text)] == cells


def test_a_copy_holds_prints_values_and_counts(runner: ModuleType) -> None:
    copy = runner.executed("# %%\nprint('said')\n\n# %%\nx = 2\nx + 1\n", "made")
    first, second = copy["cells"]
    assert first["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["said\n"]}]
    assert second["outputs"][0]["data"] == {"text/plain": ["3"]}
    assert (second["execution_count"], copy["nbformat"]) == (2, 4)


def test_a_fault_in_a_cell_names_its_line(runner: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        list(runner.run_text("# %%\nx = 1\n\n# %%\n1 / 0\n", "made"))
    assert error.traceback[-1].lineno == 4  # counted from 0
