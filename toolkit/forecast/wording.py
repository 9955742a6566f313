"""Step counts and gains in words."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import steps_text as steps_text

_FEW = 2  # neighbours that are named one by one


def signed_percent(fraction: float | None) -> str:
    """Return a signed fraction as whole per cents; what rounds to nothing has no minus."""
    return f"{round(fraction or 0.0, 2) + 0.0:+.0%}"


def step_list_text(steps: Sequence[int]) -> str:
    """Return step counts with runs of them shortened: "1 to 4 and 6 steps"."""
    spans: list[list[int]] = []
    for step in sorted(set(steps) - {0}):
        if spans and step == spans[-1][-1] + 1:
            spans[-1].append(step)
        else:
            spans.append([step])
    words = [
        word
        for span in spans
        for word in (map(str, span) if len(span) <= _FEW else (f"{span[0]} to {span[-1]}",))
    ]
    named = [] if not words else [f"{_joined(words)} {'step' if words == ['1'] else 'steps'}"]
    return " and ".join(["plain decoding", *named] if 0 in steps else named)


def _joined(words: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
