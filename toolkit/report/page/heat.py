"""Cells of the two maps: gain over plain decoding as a colour that colour-blind readers tell apart."""

from __future__ import annotations

from math import log2

from markupsafe import Markup

from toolkit.report.page.svg import element, hover

_FULL = 2.0  # doublings: four times as fast, or a quarter, is the strongest colour
_LEAST, _MOST = 0.06, 0.85


def heat_cell(x: float, y: float, width: float, height: float, gain: float | None, said: str) -> Markup:
    """Return a cell: blue where speculation is faster, orange where it is slower, hatched where open."""
    class_ = "unknown" if gain is None else "gain" if gain >= 0 else "loss"
    strength = None
    if gain is not None:
        doublings = abs(log2(max(1 + gain, 1e-3)))  # half as fast is as far from 1 as twice as fast
        strength = round(_LEAST + (_MOST - _LEAST) * min(doublings / _FULL, 1.0), 3)
    return element(
        "rect",
        hover(said),
        x=round(x, 1),
        y=round(y, 1),
        width=round(width, 1),
        height=round(height, 1),
        class_=class_,
        fill_opacity=strength,
    )


HEAT_KEYS = [("gain", "faster than plain"), ("loss", "slower"), ("unknown", "not determined")]
