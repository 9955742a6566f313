"""Command lines that documents show name commands and options that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from toolkit.cli import command_line

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name / "README.md" for name in ("traces", "notebooks", "tests/data/kimi-k2.5-tp8")),
]
OF_OTHERS = re.compile(r"python -m|vllm serve|docker ")


def command_lines(document: Path) -> Iterator[str]:
    """Yield lines of code that call the toolkit, each from its name on, and such calls in running text."""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = "\n".join(re.findall(r"(?s)```.*?```", text))
    prose = re.sub(r"(?s)```.*?```", "", text)
    shown = [*fenced.splitlines(), *(line for line in prose.splitlines() if line.startswith("    "))]
    shown += re.findall(r"`([^`]+)`", prose.replace("\n", " "))
    for line in shown:
        for call in re.split(r"&&|;|\||\$\(|\)", line):
            found = re.match(r"\s*(?:\$ )?toolkit ((?:[a-z-]+(?: |$)).*)", call.partition(" #")[0])
            if found and not OF_OTHERS.search(call):
                yield found[1]


def faults(line: str) -> Iterator[str]:
    """Yield what of a command line does not exist; values and paths are not looked at."""
    command: click.Command | None = command_line
    words = re.sub(r"\"[^\"]*\"", "VALUE", line).split()
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        command = command.get_command(click.Context(command), name)
        if command is None:
            yield name
            return
    assert command is not None
    known = {option for one in command.get_params(click.Context(command)) for option in one.opts}
    yield from (word for word in words if word.startswith("-") and word.partition("=")[0] not in known)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_command_lines_name_what_exists(document: Path) -> None:
    wrong = {line: found for line in command_lines(document) if (found := list(faults(line)))}
    assert not wrong


def test_command_lines_are_found() -> None:
    assert sum(len(list(command_lines(document))) for document in DOCUMENTS) > 60
