"""Which step count pays at which batch size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from toolkit.figures.heat import speed_up_mesh
from toolkit.figures.style import VERMILION, footnote, new_figure, styled, text_on
from toolkit.figures.wording import acceptance_label, forecast_label
from toolkit.schema.forecast import Forecast


@styled
def batch_map_figure(forecasts: Sequence[Forecast]) -> Figure:
    """Return the speed-up over plain decoding of each step count at each batch size, the best one framed.

    `forecasts` are of one server at several batch sizes (`toolkit.predict_by_batch`). What the runs do not
    determine stays pale. ValueError if that is all.
    """
    forecasts = sorted(forecasts, key=_batch)
    steps = sorted({one.num_steps for forecast in forecasts for one in forecast.candidates})
    values = np.array([_speed_ups(forecast, steps) for forecast in forecasts]).reshape(-1, len(steps)).T
    if not np.isfinite(values).any():
        raise ValueError("no step count is determined at any batch size")
    figure, (axes,) = new_figure(
        "Speed-up over plain decoding by step count and batch size",
        forecast_label(forecasts[0], batch=False),
        height=max(3.3, 1.8 + 0.36 * len(steps)),
        width=max(6.8, 3.6 + 0.9 * len(forecasts)),
    )
    columns, rows = np.arange(len(forecasts) + 1) - 0.5, np.arange(len(steps) + 1) - 0.5
    mesh = speed_up_mesh(figure, axes, (list(columns), list(rows)), values)
    for column in range(len(forecasts)):
        for row in range(len(steps)):
            if np.isfinite(values[row, column]):
                red, green, blue, _ = mesh.cmap(mesh.norm(values[row, column]))
                colour = f"#{round(255 * red):02X}{round(255 * green):02X}{round(255 * blue):02X}"
                text = f"{values[row, column]:.2f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=8.5, color=text_on(colour))
    _frame_best(axes, values)
    axes.set_xticks(range(len(forecasts)), [str(_batch(forecast)) for forecast in forecasts])
    axes.set_yticks(range(len(steps)), [str(count) for count in steps])
    axes.set_xlabel("batch size, requests")
    axes.set_ylabel("draft steps (0: plain decoding)")
    footnote(figure, f"At {acceptance_label(forecasts[0])}. Framed: the fastest; pale: not determined.")
    return figure


def _batch(forecast: Forecast) -> int:
    return forecast.candidates[0].batch_size


def _speed_ups(forecast: Forecast, steps: Sequence[int]) -> list[float]:
    plain = forecast.baseline.tok_s.value if forecast.baseline.determined else None
    usual = forecast.candidates[0].draft_tp
    speeds = {
        one.num_steps: one.tok_s.value
        for one in forecast.candidates
        if one.determined and one.draft_tp in (usual, None)
    }
    return [(speeds.get(count) or np.nan) / plain if plain else np.nan for count in steps]


def _frame_best(axes: Axes, values: NDArray[np.float64]) -> None:
    for column in range(values.shape[1]):
        own = values[:, column]
        if np.isfinite(own).any():
            corner = (column - 0.47, int(np.nanargmax(own)) - 0.47)
            axes.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor=VERMILION, linewidth=2.4))
