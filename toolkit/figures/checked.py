"""Predicted against measured cycles of runs that a fit never saw, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from toolkit.figures.style import BLUE, INK, VERMILION, footnote, new_figure, styled
from toolkit.figures.wording import steps_label
from toolkit.schema.cost import CheckedCell, CheckReport

_MOST_ROWS = 40


@styled
def checked_figure(report: CheckReport) -> Figure:
    """Return a row for each configuration: its measured cycle in the predicted 90 % interval, as a ratio.

    At most 40 rows, those that are furthest off; ValueError without any.
    """
    cells = _shown(report.configurations)
    if not cells:
        raise ValueError("the check holds no configuration")
    figure, (axes,) = new_figure(
        "Measured cycles and what was predicted", width=8, height=1.7 + 0.27 * len(cells)
    )
    for place, cell in enumerate(cells):
        unit = cell.measured_ms / 100
        ends = [cell.lo_ms / unit - 100, cell.hi_ms / unit - 100]
        colour = BLUE if cell.inside else VERMILION
        axes.plot(ends, [place, place], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
        marker = "o" if cell.inside else "X"
        fill = "white" if cell.extrapolated else colour
        axes.plot([100 * cell.error], [place], color=colour, marker=marker, ms=7, mfc=fill, linestyle="")
    axes.axvline(0, color=INK, linewidth=1.2)
    axes.set_yticks(range(len(cells)), [_label(cell) for cell in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlabel("predicted / measured - 1, %")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    inside = sum(cell.inside for cell in report.configurations)
    said = (
        f"Bars: 90 % intervals; {inside} of {len(report.configurations)} hold the measured cycle (blue, o); "
        "hollow: extrapolated."
    )
    footnote(figure, said if report.mape is None else f"{said} Off by {report.mape:.1%} on average.")
    return figure


def _shown(cells: Sequence[CheckedCell]) -> list[CheckedCell]:
    worst = sorted(cells, key=lambda cell: -abs(cell.error))[:_MOST_ROWS]
    return sorted(worst, key=lambda cell: (cell.num_steps, cell.batch_size, cell.context_tokens or 0))


def _label(cell: CheckedCell) -> str:
    context = "" if cell.context_tokens is None else f", context {cell.context_tokens:,}"
    return f"{steps_label(cell.num_steps)}, batch {cell.batch_size}{context}: {cell.measured_ms:.2f} ms"
