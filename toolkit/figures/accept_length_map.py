"""Which accept length each step count needs: step count x accept length, with break-even."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.heat import speed_up_mesh
from toolkit.figures.style import INK, footnote, new_figure, styled
from toolkit.figures.wording import acceptance_label, forecast_label
from toolkit.schema.forecast import BreakEven, Candidate, Forecast

_COLUMNS = 160  # of accept length


@styled
def accept_length_map_figure(forecast: Forecast) -> Figure:
    """Return the speed-up of each step count at each accept length it could have, 1 to steps + 1.

    Marked are break-even with its 90 % interval and the accept length that the forecast expects.
    ValueError if no step count has a break-even.
    """
    evens = [one for one in forecast.break_even_accept_length if one.accept_length]
    usual = forecast.candidates[0].draft_tp if forecast.candidates else None
    evens = [one for one in evens if one.draft_tp in (usual, None)]
    if not evens:
        raise ValueError("no step count has a break-even accept length")
    steps = [one.num_steps for one in evens]
    figure, (axes,) = new_figure(
        "Accept length that each step count needs",
        forecast_label(forecast),
        height=max(3.3, 1.8 + 0.36 * len(steps)),
        width=8.4,
    )
    right = _right(evens, forecast.candidates)
    lengths = np.linspace(1, right, _COLUMNS + 1)
    middles = (lengths[1:] + lengths[:-1]) / 2
    speed_ups = np.array(
        [np.where(middles <= one.num_steps + 1, middles / (one.accept_length or 1), np.nan) for one in evens]
    )
    speed_up_mesh(figure, axes, (list(lengths), list(np.arange(len(steps) + 1) - 0.5)), speed_ups)
    _break_even(axes, evens)
    _expected(axes, forecast.candidates, steps)
    axes.set_yticks(range(len(steps)), [str(count) for count in steps])
    axes.set_xlim(1, right)
    axes.set_ylim(-0.5, len(steps) - 0.5)
    axes.set_xlabel("accept length, tokens a cycle")
    axes.set_ylabel("draft steps")
    axes.legend(loc="lower right", facecolor="white", frameon=True, framealpha=0.9, edgecolor="white")
    footnote(figure, f"Expected: {acceptance_label(forecast)}. Pale: more than the steps can give.")
    return figure


def _right(evens: Sequence[BreakEven], candidates: Sequence[Candidate]) -> float:
    """Return the end of the axis: twice what matters, but no more than the steps can give."""
    lengths = [one.accept_length or 1.0 for one in evens]
    lengths += [one.accept_length or 1.0 for one in candidates]
    return min(max(one.num_steps for one in evens) + 1.0, 2 * max(lengths))


def _break_even(axes: Axes, evens: Sequence[BreakEven]) -> None:
    for place, one in enumerate(evens):
        label = "break-even, 90 %" if not place else None
        length = one.accept_length or 1.0
        axes.plot([length] * 2, [place - 0.5, place + 0.5], color="white", linewidth=4.5)
        axes.plot([length] * 2, [place - 0.5, place + 0.5], color=INK, linewidth=2.2, label=label)
        if one.lo is not None and one.hi is not None:
            axes.plot([one.lo, one.hi], [place, place], color="white", linewidth=3.2)
            axes.plot([one.lo, one.hi], [place, place], color=INK, linewidth=1.4)


def _expected(axes: Axes, candidates: Sequence[Candidate], steps: Sequence[int]) -> None:
    lengths = {one.num_steps: one.accept_length for one in candidates if one.accept_length is not None}
    points = [(lengths[count], place) for place, count in enumerate(steps) if count in lengths]
    if points:
        xs, ys = zip(*points, strict=True)
        style: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "markersize": 7, "linestyle": ""}
        axes.plot(xs, ys, "D", label="expected", **style)
