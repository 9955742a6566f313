"""How all figures look: one palette, one set of sizes, no state of matplotlib's left behind.

Colours are those of Okabe and Ito (jfly.uni-koeln.de/color), which colour-blind readers tell apart.
Neighbours in a bar differ in lightness too, and lines in their markers, so that figures can be read in grey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

P = ParamSpec("P")

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
INK, GREY, PALE = "#222222", "#6B6B6B", "#D9D9D9"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # lines, in this order
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # a line's marker, in the same order
PHASES = {
    "decode": BLUE,  # the target's forward, as verify is
    "draft": SKY,
    "verify": BLUE,
    "sample": PURPLE,  # phases as the report page colours them
    "draft_extend": GREEN,
    "gap": PALE,
    "rest": PALE,
}
WHITE_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}  # behind text over lines
SEQUENTIAL = "cividis"  # lightness rises with the value, for every kind of sight

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so a figure is the same everywhere
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlecolor": GREY,
    "grid.color": "#E8E8E8",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.color": INK,
    "hatch.linewidth": 0.7,
    "svg.hashsalt": "toolkit",  # names of parts in an SVG: the same in every process
    "savefig.dpi": 110,
    "figure.dpi": 110,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Return a figure's function that draws in this style."""

    @wraps(draw)
    def styled_draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with in_style():
            return draw(*args, **kwargs)

    return styled_draw


@contextmanager
def in_style() -> Iterator[None]:
    """Set matplotlib to this style for a while, whatever the reader's own settings are."""
    style: Any = STYLE
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)
        yield


def new_figure(
    title: str,
    subtitle: str = "",
    *,
    width: float = 8.0,
    height: float = 4.0,
    columns: int = 1,
    **kwargs: Any,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, side by side; it belongs to no window, so none has to be closed.

    The title says what is shown, the subtitle of what; sizes are in inches.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    panels = list(figure.subplots(1, columns, squeeze=False, **kwargs)[0])
    for axes in panels:
        axes.tick_params(colors=GREY, labelcolor=INK, labelsize=9, length=3)
    if subtitle:
        panels[0].set_title(subtitle, pad=8)
    return figure, panels


def footnote(figure: Figure, text: str) -> None:
    """Put a sentence below the panels: what a reader would otherwise get wrong."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8.5, color=GREY)


def text_on(colour: str) -> str:
    """Return black or white, whichever can be read on a colour (relative luminance of WCAG)."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "white"
