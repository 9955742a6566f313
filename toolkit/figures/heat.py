"""Speed-up over plain decoding as a colour, equal ratios equally far apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from toolkit.figures.style import PALE, SEQUENTIAL

_NEAREST = (0.8, 1.25)  # ends of the scale where all speed-ups are nearer to 1
_TICKS = (0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def speed_up_mesh(
    figure: Figure, axes: Axes, edges: tuple[Sequence[float], Sequence[float]], values: NDArray[np.float64]
) -> QuadMesh:
    """Draw speed-ups as a mesh with its colour bar, equal ratios equally far apart; NaN stays pale."""
    low, high = min(_NEAREST[0], float(np.nanmin(values))), max(_NEAREST[1], float(np.nanmax(values)))
    axes.set_facecolor(PALE)
    # rasterized: an SVG would hold a path for each of a thousand cells
    mesh = axes.pcolormesh(
        *edges, np.ma.masked_invalid(values), cmap=SEQUENTIAL, norm=LogNorm(low, high), rasterized=True
    )
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, aspect=28)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.minorticks_off()
    bar.ax.tick_params(labelsize=9, length=3)
    bar.set_label("tokens per second / plain decoding's")
    return mesh
