"""Messages that a page quotes are messages that the toolkit has: a reader looks for them word by word."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("troubleshooting.md", "attaching.md")
SHORTEST = 12  # characters: below, a quote is a word and no message
VALUES = re.compile(r"\.\.\.|\bN\b|\d+(?:\.\d+)*")  # what stands in a message for a path or a number


@pytest.fixture(scope="module")
def said() -> str:
    """Return all texts in the code, values left out."""
    texts = []
    for path in (ROOT / "toolkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


@pytest.mark.parametrize("page", PAGES)
def test_quoted_messages_exist(page: str, said: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    prose = " ".join(line for line in text.splitlines() if not line.startswith("    "))
    quotes = re.findall(r'"([^"]+)"', prose)
    parts = [part.strip(" ()") for quote in quotes for part in VALUES.split(quote)]
    assert not [part for part in parts if len(part) >= SHORTEST and part not in said]
