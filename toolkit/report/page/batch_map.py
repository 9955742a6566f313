"""Step count by batch: gain over plain decoding at the acceptance of the forecast."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.heat import HEAT_KEYS, heat_cell
from toolkit.report.page.svg import Axes, box, legend, picture, text, x_axis
from toolkit.schema.report import GridCycle, WhatIfGrid

_WIDTH, _ROW = 760, 34
Gains = list[list[float | None]]


def batch_map(
    key: str, grid: WhatIfGrid, lengths: Sequence[float | None], run_batches: set[int]
) -> Figure | None:
    """Return the map for accept lengths by step count; None without plain decoding at any batch."""
    if 0 not in grid.steps or len(grid.batches) < 2:
        return None
    gains = _gains(grid, lengths)
    shown = [place for place, steps in enumerate(grid.steps) if steps > 0]
    if not any(gains[row][place] is not None for row in range(len(grid.batches)) for place in shown):
        return None
    axes = Axes(
        left=76,
        right=_WIDTH - 16,
        top=56,
        bottom=56 + _ROW * len(grid.batches),
        x_from=-0.5,
        x_to=len(shown) - 0.5,
    )
    names = [str(grid.steps[place]) for place in shown]
    drawn = [
        legend([*HEAT_KEYS, ("best", "fastest at that batch")], 10, 18, _WIDTH - 20),
        x_axis(axes, range(len(shown)), "draft steps", lambda value: names[int(value)]),
        box(axes.left, axes.top, axes.right - axes.left, axes.bottom - axes.top, "ground"),
        *(_row(axes, grid, gains, row, shown, run_batches) for row in range(len(grid.batches))),
        text(10, axes.top - 10, "batch", "label"),
    ]
    return Figure(
        key=key,
        title="Step count by batch",
        caption=_caption(grid),
        drawing=picture(_WIDTH, axes.bottom + 44, "Gain over plain decoding by step count and batch", *drawn),
        numbers=_numbers(grid, gains, shown),
    )


def _gains(grid: WhatIfGrid, lengths: Sequence[float | None]) -> Gains:
    """Return for each batch and step count the gain in tokens per second, None where it is open."""
    place = grid.steps.index(0)
    return [
        [_gain(cell, row[place], length) for cell, length in zip(row, lengths, strict=True)]
        for row in grid.cycles
    ]


def _gain(cell: GridCycle, plain: GridCycle, length: float | None) -> float | None:
    if length is None or not cell.determined or not plain.determined or not cell.value or not plain.value:
        return None
    return length * plain.value / cell.value - 1


def _row(
    axes: Axes, grid: WhatIfGrid, gains: Gains, row: int, shown: Sequence[int], run_batches: set[int]
) -> Markup:
    y, batch = axes.top + row * _ROW, grid.batches[row]
    star = "" if batch in run_batches else "*"
    drawn = [text(axes.left - 8, y + 22, f"{batch}{star}", "tick", "end")]
    gaining = [(gain, place) for place in shown if (gain := gains[row][place]) is not None]
    best = max(gaining)[1] if gaining and max(gaining)[0] > 0 else None
    for column, place in enumerate(shown):
        gain = gains[row][place]
        left, width = axes.x(column - 0.5) + 1, axes.x(column + 0.5) - axes.x(column - 0.5) - 2
        known = "not determined" if gain is None else f"{gain:+.1%}"
        said = f"{grid.steps[place]} steps at batch {batch}: {known}"
        drawn.append(heat_cell(left, y + 1, width, _ROW - 2, gain, said))
        if place == best:
            drawn.append(box(left + 1.5, y + 2.5, width - 3, _ROW - 5, "best"))
        drawn.append(text(axes.x(column), y + 22, _shown(gain), "value", "middle"))
    return Markup("").join(drawn)


def _shown(gain: float | None) -> str:
    return "?" if gain is None else f"{gain:+.0%}"


def _caption(grid: WhatIfGrid) -> str:
    context = "" if grid.context_tokens is None else f" and context {grid.context_tokens:,}"
    return (
        f"Gain in tokens per second over plain decoding at the same batch{context}, by the fitted model's "
        "values. A batch with a star was not run. Where no step count gains, plain decoding is fastest."
    )


def _numbers(grid: WhatIfGrid, gains: Gains, shown: Sequence[int]) -> Numbers:
    rows = tuple(
        (str(batch), *(_shown(gains[row][place]) for place in shown))
        for row, batch in enumerate(grid.batches)
    )
    return Numbers(columns=("batch", *(f"{grid.steps[place]} steps" for place in shown)), rows=rows)
