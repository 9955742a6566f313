"""The documents speak of what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "traces" / "README.md"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert not [link for link in links if not (document.parent / link).exists()]


def test_the_readme_shows_commands_that_exist_and_no_others() -> None:
    shown = set(re.findall(r"`toolkit ([\w-]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert shown == set(COMMANDS)


def test_the_reference_lists_every_command() -> None:
    listed = re.findall(
        r"^\| `toolkit ([\w-]+)", (ROOT / "docs" / "reference.md").read_text("utf-8"), re.MULTILINE
    )
    assert set(listed) == set(COMMANDS)


def test_sections_that_are_linked_exist() -> None:
    """As Markdown viewers name them; `make docs` checks the same, but not every change builds it."""
    lost = []
    for document in DOCUMENTS:
        for path, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
            target = document.parent / path if path else document
            if section not in _sections(target):
                lost.append(f"{document.name}: {path}#{section}")
    assert not lost


def _sections(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_map_names_every_module() -> None:
    text = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    modules = [path.relative_to(ROOT / "toolkit") for path in (ROOT / "toolkit").rglob("*.py")]
    missing = [str(path) for path in modules if path.name != "__init__.py" and f"`{path.name}`" not in text]
    assert not missing
