"""Errors end with what to do next: read from the sentences in the code, wherever they are raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"UsageError", "BadInputError", "CaptureError", "UndeterminedError", "BadParameter"}
MOVES = re.compile(
    r"(?:[;:,]|\band|\bor|\bso) "
    r"(add|calibrate|check|choose|copy|correct|did you mean|drive|end|give|if|install|leave|lower|make|name"
    r"|pass|profile|record|restore|run|see|send|split|start|take|try|upgrade|use|wait|write)\b"
)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield each sentence that an error is made with: its place and its words, values left out."""
    for path in sorted((ROOT / "toolkit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in KINDS and isinstance(node.args[0], ast.JoinedStr | ast.Constant):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", _words(node.args[0])


def _words(sentence: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(sentence, ast.Constant):
        return str(sentence.value)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in sentence.values)


# The value that ends each of these is a sentence of its own, with its own next move.
ENDS_WITH_A_SENTENCE = {
    "… holds no run that can be read: … run folders cannot, the first because …",
    "… cannot be profiled: …; …",
    "the runs of … do not determine … at batch …: …; … (--anyway shows the range)",
}


def test_every_error_says_what_to_do_next() -> None:
    found = dict(sentences())
    assert len(found) > 100
    at_a_loss = {
        place: text
        for place, text in found.items()
        if text not in ENDS_WITH_A_SENTENCE and not MOVES.search(text)
    }
    assert not at_a_loss


def test_no_sentence_is_excused_that_is_gone() -> None:
    assert set(dict(sentences()).values()) >= ENDS_WITH_A_SENTENCE
