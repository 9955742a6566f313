"""Outputs in README and documents are what the commands print: the words whole, numbers nearly.

Another processor may round otherwise, so numbers may be off by a tenth; `make shown-outputs` renews them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Return tools/shown_outputs.py, which is a script and no part of the package."""
    spec = importlib.util.spec_from_file_location("shown_outputs", ROOT / "tools" / "shown_outputs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCUMENTS = ["README.md", "docs/quick-start-sglang.md", "docs/founding-case.md", "docs/commands/inspect.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_shown_outputs_are_what_is_printed(tool: ModuleType, tmp_path: Path, document: str) -> None:
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    shutil.copytree(ROOT / "tests" / "data" / "kimi-k2.5-tp8", tmp_path / "kimi")
    before = (ROOT / document).read_text(encoding="utf-8").splitlines()
    after = before
    for said, lines in tool.renewed(document, tmp_path):
        assert "no longer prints" not in said, said
        after = lines
    far = [(one, other) for one, other in zip(before, after, strict=True) if not _near(one, other)]
    assert not far, f"{far}: run `make shown-outputs`, and see that the prose around it still holds"


def _near(one: str, other: str) -> bool:
    shown, printed = (
        [float(word.replace(",", "")) for word in _NUMBER.findall(line)] for line in (one, other)
    )
    return all(abs(a - b) <= 0.1 * abs(a) + 5 for a, b in zip(shown, printed, strict=True))


def test_words_are_compared_without_numbers_and_marks(tool: ModuleType) -> None:
    assert tool.now(["*4 5 of 10.0", "...", "end 7%"], ["a", " 4 6 of 11.5 +", "b", "end 9%"]) == [
        " 4 6 of 11.5 +",
        "...",
        "end 9%",
    ]
    with pytest.raises(tool.MovedError):
        tool.now(["gone"], ["here"])
