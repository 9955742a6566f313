"""Bars of phases laid end to end, and the legend that names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.patches import Patch

from toolkit.figures.cycle_parts import Part, phase_name
from toolkit.figures.style import GREY, INK, PHASES, text_on

_WIDE_ENOUGH = 0.075  # of the axis, for a name and a number inside
_HIGH = 0.62  # of a bar; they are 1 apart
_WAIT_HATCH = "////"
_LEGEND = {  # phases of one colour share an entry
    "draft": ("draft",),
    "verify (target)": ("verify",),
    "decode (target)": ("decode",),
    "decode, verify (target)": ("decode", "verify"),
    "sample": ("sample",),
    "draft extend": ("draft_extend",),
    "gap: in no phase": ("gap",),
    "rest of the cycle": ("rest",),
    "gap, rest of the cycle": ("gap", "rest"),
}


def draw_parts(axes: Axes, y: float, parts: Sequence[Part], *, scale: float, right: float) -> float:
    """Draw parts as one bar at height y and return its end; `scale` makes us into units of the axis.

    `right` is the end of the axis: parts that are wide enough are named inside.
    """
    left = 0.0
    for part in parts:
        width, colour = part.us * scale, PHASES[part.phase]
        if part.graph:
            axes.barh(y, width, _HIGH, left, color=colour, edgecolor="white", linewidth=1.2)
        else:  # hollow
            inset = min(0.003 * right, width / 3)
            axes.barh(
                y, width - 2 * inset, _HIGH - 0.04, left + inset, color="white", edgecolor=colour, linewidth=2
            )
        if part.wait_us * scale > 0.002 * right:
            wait = part.wait_us * scale
            axes.barh(
                y, wait, _HIGH, left + width - wait, color="none", edgecolor="white", hatch=_WAIT_HATCH, lw=0
            )
        if width > _WIDE_ENOUGH * right:
            name = f"{phase_name(part.phase)}\n{width:.2f}"
            ink = text_on(colour) if part.graph else INK
            axes.text(left + width / 2, y, name, ha="center", va="center", fontsize=8.5, color=ink)
        left += width
    return left


def phase_legend(axes: Axes, bars: Iterable[Sequence[Part]]) -> Legend:
    """Add a legend of what is drawn to the right of the axes."""
    parts = [part for bar in bars for part in bar]
    shown = {part.phase for part in parts}
    patches = [
        Patch(facecolor=PHASES[phases[0]], label=name)
        for name, phases in _LEGEND.items()
        if set(phases) == {phase for phase in shown if PHASES[phase] == PHASES[phases[0]]}
    ]
    if any(part.wait_us > 0 for part in parts):
        patches.append(
            Patch(facecolor=GREY, edgecolor="white", hatch=_WAIT_HATCH, label="waiting for a rank")
        )
    if not all(part.graph for part in parts):
        patches.append(Patch(facecolor="white", edgecolor=GREY, linewidth=2, label="around the call"))
    return axes.legend(
        handles=patches, loc="upper left", bbox_to_anchor=(1.005, 1.0), borderaxespad=0, handlelength=1.2
    )
