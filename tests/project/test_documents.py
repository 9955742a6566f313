"""The documents speak of what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "traces" / "README.md"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert not [link for link in links if not (document.parent / link).exists()]


def test_the_readme_shows_commands_that_exist_and_no_others() -> None:
    shown = set(re.findall(r"`toolkit ([\w-]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert shown == set(COMMANDS)


def test_the_reference_has_a_section_for_every_command() -> None:
    sections = re.findall(
        r"^## `toolkit ([\w-]+)", (ROOT / "docs" / "reference.md").read_text("utf-8"), re.MULTILINE
    )
    assert set(sections) == set(COMMANDS)


def test_the_map_names_every_module() -> None:
    text = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    modules = [path.relative_to(ROOT / "toolkit") for path in (ROOT / "toolkit").rglob("*.py")]
    missing = [str(path) for path in modules if path.name != "__init__.py" and f"`{path.name}`" not in text]
    assert not missing
