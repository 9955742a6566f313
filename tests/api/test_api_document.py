"""The examples of docs/api.md give what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from toolkit import figures
from toolkit.report import frames

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def test_the_examples_give_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    example = doctest.DocTestParser().get_doctest("".join(blocks), {}, "api.md", None, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example, out=said.append)
    assert len(example.examples) > 20
    assert not said, "".join(said)


def test_every_figure_and_frame_is_listed() -> None:
    made = [name for name, one in vars(frames).items() if callable(one) and one.__module__ == frames.__name__]
    names = [*figures.__all__, *(name for name in made if not name.startswith("_"))]
    assert len(names) > 20
    assert not [name for name in names if f"{name}(" not in TEXT]
