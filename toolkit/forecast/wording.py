"""Step counts and gains in words."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import steps_text as steps_text


def signed_percent(fraction: float | None) -> str:
    """Return a signed fraction as whole per cents; what rounds to nothing has no minus."""
    return f"{round(fraction or 0.0, 2) + 0.0:+.0%}"


def step_list_text(steps: Sequence[int]) -> str:
    """Return step counts with runs of them shortened: "1 to 4, 6 steps"."""
    spans: list[list[int]] = []
    for step in sorted(set(steps)):
        if spans and step == spans[-1][-1] + 1:
            spans[-1].append(step)
        else:
            spans.append([step])
    words = [str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
    if words == ["0"]:
        return "plain decoding"
    return f"{', '.join(words)} {'step' if words == ['1'] else 'steps'}"
