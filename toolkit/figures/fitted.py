"""Fitted against measured cycles of one group, and how far each is off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.style import BLUE, GREY, INK, MARKERS, ORANGE, VERMILION, footnote, new_figure, styled
from toolkit.figures.wording import server_label
from toolkit.schema.cost import FittedCell, GroupModel

_MS = 1e-3  # of a us
_NEAR = 0.05  # shaded on either side of exact


@styled
def fitted_figure(group: GroupModel) -> Figure:
    """Return two panels: fitted against measured cycle, and the error by step count.

    Cells whose cycle was not usable are left out; ValueError where that is all of them.
    """
    cells = [cell for cell in group.cells if cell.cycle_us is not None and cell.fitted_us is not None]
    if not cells:
        raise ValueError(f"no configuration of {server_label(group)} has a measured and a fitted cycle")
    figure, (left, right) = new_figure(
        "Fitted against measured cycles", server_label(group), width=9.4, height=4.4, columns=2
    )
    kinds = (
        ("plain decoding", [cell for cell in cells if not cell.num_steps], ORANGE),
        ("speculation", [cell for cell in cells if cell.num_steps and not cell.host_bound], BLUE),
        (
            "speculation, host-bound",
            [cell for cell in cells if cell.num_steps and cell.host_bound],
            VERMILION,
        ),
    )
    for place, (name, same, colour) in enumerate(kinds):
        if same:
            style: dict[str, Any] = {
                "color": colour,
                "marker": MARKERS[place],
                "linestyle": "",
                "markersize": 6,
                "alpha": 0.75,
            }
            left.plot([_measured(one) for one in same], [_fitted(one) for one in same], label=name, **style)
            right.plot(_spread(same), [_error(one) for one in same], **style)
    _dress_scatter(left, cells)
    _dress_errors(right, cells)
    held_out = group.holdout
    if held_out.mape is not None:
        footnote(
            figure,
            f"Grey: within {_NEAR:.0%}. Of {held_out.cells} configurations left out one at a time the "
            f"forecast is off by {held_out.mape:.1%} on average.",
        )
    return figure


def _dress_scatter(axes: Axes, cells: Sequence[FittedCell]) -> None:
    top = 1.06 * max(max(_measured(one), _fitted(one)) for one in cells)
    ends = [0.0, top]
    axes.fill_between(ends, [0, top * (1 - _NEAR)], [0, top * (1 + _NEAR)], color="#EDEDED", zorder=0)
    axes.plot(ends, ends, color=INK, linewidth=1, zorder=1)
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.set_xlabel("measured, ms a cycle")
    axes.set_ylabel("fitted, ms a cycle")
    axes.legend(loc="upper left")


def _dress_errors(axes: Axes, cells: Sequence[FittedCell]) -> None:
    most = max(0.08, 1.15 * max(abs(_error(one)) / 100 for one in cells)) * 100
    axes.axhspan(-100 * _NEAR, 100 * _NEAR, color="#EDEDED", zorder=0)
    axes.axhline(0, color=INK, linewidth=1, zorder=1)
    axes.set_ylim(-most, most)
    steps = sorted({one.num_steps for one in cells})
    axes.set_xticks(steps)
    axes.set_xlim(steps[0] - 0.6, steps[-1] + 0.6)
    axes.set_xlabel("draft steps (0: plain decoding)")
    axes.set_ylabel("fitted / measured - 1, %")
    axes.grid(axis="y")
    axes.spines["left"].set_color(GREY)


def _spread(same: Sequence[FittedCell]) -> list[float]:
    """Return step counts, moved a little by batch size: small batches to the left."""
    batches = sorted({one.batch_size for one in same})
    width = 0.36 / max(len(batches) - 1, 1)
    return [one.num_steps + width * batches.index(one.batch_size) - 0.18 for one in same]


def _measured(cell: FittedCell) -> float:
    return (cell.cycle_us or 0.0) * _MS


def _fitted(cell: FittedCell) -> float:
    return (cell.fitted_us or 0.0) * _MS


def _error(cell: FittedCell) -> float:
    return 100 * (_fitted(cell) / _measured(cell) - 1)
