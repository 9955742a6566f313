"""The pages of docs/commands say what the commands say of themselves, and each command has one."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """Return tools/command_pages.py, which is a script and no part of the package."""
    spec = importlib.util.spec_from_file_location("command_pages", ROOT / "tools" / "command_pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_as_its_command_is(pages: ModuleType) -> None:
    late = [str(path.relative_to(ROOT)) for path in pages.stale()]
    assert not late, f"{late}: run `make command-pages`"


def test_every_page_is_of_a_command_and_on_the_index(pages: ModuleType) -> None:
    named = {pages.page_of(words).name for words, _ in pages.commands()}
    assert {path.name for path in pages.PAGES.glob("*.md")} == named
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(commands/([\w-]+\.md)\)", index)) == named


def test_a_page_keeps_what_is_written_by_hand(pages: ModuleType) -> None:
    words, command = next(pages.commands())
    page = f"# Title\n\nBefore.\n\n{pages.BEGIN}\n\nas it was\n\n{pages.END}\n\nAfter.\n"
    now = pages.with_made_part(page, words, command)
    assert now.startswith("# Title\n\nBefore.\n\n") and now.endswith("\n\nAfter.\n")
    assert "as it was" not in now and "`--server-pid N`" in now
    assert pages.with_made_part(now, words, command) == now


def test_every_command_shows_an_example_and_what_comes_next(pages: ModuleType) -> None:
    for words, command in pages.commands():
        example = f"(?m)^( {{4}}|PYTHONPATH=.*)?.*toolkit {words}\\b"
        assert re.search(example, command.help or ""), words
        assert "\nNext: " in re.sub(r"\n\s+", "\n", command.help or ""), words
