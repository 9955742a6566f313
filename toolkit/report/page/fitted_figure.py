"""Fitted against measured cycles: the cells of one group's fit on a diagonal."""

from __future__ import annotations

from math import log10

from markupsafe import Markup

from toolkit.model.cell import steps_text
from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.svg import Axes, element, hover, legend, line, picture, plain, ticks, x_axis, y_axis
from toolkit.report.tables import number, share, signed_share
from toolkit.schema.cost import FittedCell, GroupModel
from toolkit.units import ms_from_us

_WIDTH, _SIZE = 760, 460
_MARGIN = 0.06  # of the logarithmic range, beyond the shortest and longest cycle
_KEYS = [("s0", "plain decoding"), ("s1", "speculation"), ("s2", "set by the host")]


def fitted_figure(key: str, group: GroupModel) -> Figure | None:
    """Return the cells that have both a measured and a fitted cycle; None below two of them."""
    cells = [cell for cell in group.cells if cell.cycle_us and cell.fitted_us]
    if len(cells) < 2:
        return None
    logs = [log10(ms_from_us(us)) for cell in cells for us in (cell.cycle_us, cell.fitted_us) if us]
    edge = max(_MARGIN * (max(logs) - min(logs)), 0.02)
    low, high = min(logs) - edge, max(logs) + edge
    axes = Axes(
        left=64,
        right=64 + _SIZE,
        top=60,
        bottom=60 + _SIZE * 0.75,
        x_from=low,
        x_to=high,
        y_from=low,
        y_to=high,
    )
    marks = [log10(value) for value in _round_values(10**low, 10**high)]
    keys = _KEYS if any(cell.host_bound for cell in cells) else _KEYS[:2]
    drawn = [
        legend(keys, 10, 18, _WIDTH - 20),
        x_axis(axes, marks, "measured cycle, ms (log scale)", _shown),
        y_axis(axes, marks, "fitted cycle, ms (log scale)", _shown),
        line(axes.x(low), axes.y(low), axes.x(high), axes.y(high), "mark"),
        *(_point(axes, cell) for cell in cells),
    ]
    return Figure(
        key=key,
        title="Fitted against measured",
        caption=_caption(group, cells),
        drawing=picture(
            _WIDTH, axes.bottom + 44, "Fitted against measured cycle of each configuration", *drawn
        ),
        numbers=_numbers(cells),
    )


def _round_values(low: float, high: float) -> list[float]:
    """Return a few round values, evenly spread where the range is narrow and by decades where it is wide."""
    if high / low < 4:
        return [value for value in ticks(low, high, 5) if value > 0]
    bases = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0) if high / low < 20 else (1.0, 2.0, 5.0)
    return [base * 10**power for power in range(-3, 6) for base in bases if low <= base * 10**power <= high]


def _shown(value: float) -> str:
    return plain(float(f"{10**value:.3g}"))


def _point(axes: Axes, cell: FittedCell) -> Markup:
    assert cell.cycle_us is not None
    assert cell.fitted_us is not None
    x, y = axes.x(log10(ms_from_us(cell.cycle_us))), axes.y(log10(ms_from_us(cell.fitted_us)))
    said = hover(
        f"{cell.run}: {steps_text(cell.num_steps)}, batch {cell.batch_size}; measured "
        f"{ms_from_us(cell.cycle_us):.2f} ms, fitted {ms_from_us(cell.fitted_us):.2f} ms"
    )
    if cell.host_bound:
        return element("path", said, d=f"M{x:.1f} {y - 6:.1f}l5.5 10h-11z", class_="s2")
    if cell.num_steps == 0:
        return element("rect", said, x=x - 4, y=y - 4, width=8, height=8, class_="s0")
    return element("circle", said, cx=x, cy=y, r=4.5, class_="s1")


def _caption(group: GroupModel, cells: list[FittedCell]) -> str:
    held = group.holdout
    said = f"{len(cells)} configurations the fit has seen; on the dashed diagonal both agree."
    if held.cells and held.mape is not None:
        said += (
            f" What counts is the hold-out: {held.cells} configurations left out one at a time are "
            f"predicted to {share(held.mape)} on average, {share(held.covered90)} inside their 90 % interval."
        )
        if held.null_mape is not None:
            said += f" A straight line in the step count errs {share(held.null_mape)}."
    else:
        said += f" No hold-out: {held.note}." if held.note else " No hold-out."
    return said


def _numbers(cells: list[FittedCell]) -> Numbers:
    rows = tuple(
        (
            cell.run,
            str(cell.num_steps),
            str(cell.batch_size),
            "-" if cell.context_tokens is None else str(cell.context_tokens),
            number(ms_from_us(cell.cycle_us or 0.0), 3),
            number(ms_from_us(cell.fitted_us or 0.0), 3),
            signed_share((cell.fitted_us or 0.0) / (cell.cycle_us or 1.0) - 1),
        )
        for cell in cells
    )
    return Numbers(columns=("run", "steps", "batch", "context", "measured ms", "fitted ms", "off"), rows=rows)
