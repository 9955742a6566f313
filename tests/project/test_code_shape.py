"""Budgets that keep the code readable, and words that must not spread."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "toolkit").rglob("*.py"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_are_short() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert not {path: count for path, count in lines.items() if count > 400}
    assert median(lines.values()) <= 120


def test_no_function_is_longer_than_fifty_lines() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": lines
        for path in MODULES
        for node in functions(path)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > 50
    }
    assert not long


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in MODULES if ast.get_docstring(ast.parse(path.read_text("utf-8"))) is None]
    assert not silent


def test_no_module_is_a_drawer_for_everything() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "common", "helpers", "misc"}]


def test_functions_are_named_for_what_they_return_or_do() -> None:
    vague = re.compile(r"_?(get|process|handle)_")
    names = [node.name for path in MODULES for node in functions(path)]
    assert len(names) > 50
    # click's own name for looking up a command
    assert not [name for name in names if vague.match(name) and name != "get_command"]


def test_no_file_names_a_machine() -> None:
    patterns = re.compile(r"/(?:home|root|work)/\w|\bpypi\.|127\.0\.0\.1:\d")
    written = [
        path
        for folder in ("toolkit", "docs", "notebooks", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in {".py", ".md", ""}
    ]
    written += [
        ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "setup.cfg", "pyproject.toml")
    ]
    assert not [path for path in written if patterns.search(path.read_text(encoding="utf-8"))]


def test_every_folder_of_modules_is_a_package_that_gets_installed() -> None:
    assert not [path.parent for path in MODULES if not (path.parent / "__init__.py").exists()]
