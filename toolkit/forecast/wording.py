"""Step counts in words."""

from __future__ import annotations

from collections.abc import Sequence


def steps_text(steps: int) -> str:
    """Return "plain decoding", "1 step" or "5 steps"."""
    if steps == 0:
        return "plain decoding"
    return "1 step" if steps == 1 else f"{steps} steps"


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
