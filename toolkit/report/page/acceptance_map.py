"""Step count by accept length: where speculation pays, with the break-even point of each step count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from markupsafe import Markup

from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.heat import HEAT_KEYS, heat_cell
from toolkit.report.page.svg import (
    Axes,
    element,
    hover,
    legend,
    line,
    picture,
    polyline,
    text,
    whisker,
    x_axis,
    y_axis,
)
from toolkit.report.tables import number
from toolkit.schema.forecast import BreakEven, Candidate, Forecast
from toolkit.schema.report import AcceptLengthLines

_WIDTH = 760
_ROWS_PER_TOKEN = 4
_HIGHEST, _LEAST_HIGH = 9.0, 4.0  # tokens a cycle: beyond the first no published head comes
_LINES = 4  # of other accept lengths, thin


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    candidate: Candidate
    even: BreakEven

    @property
    def known(self) -> float | None:
        """The break-even point where cycle and plain step are both determined."""
        return self.even.accept_length


def acceptance_map(
    key: str, forecast: Forecast, lengths: AcceptLengthLines | None, steps: Sequence[int], *, supposed: bool
) -> Figure | None:
    """Return the map at the batch of the forecast; None where no step count has a break-even point."""
    columns = _columns(forecast)
    if not any(column.even.accept_length or column.even.hi for column in columns):
        return None
    highest = _highest(columns, supposed)
    axes = Axes(
        left=64,
        right=_WIDTH - 44,
        top=56,
        bottom=336,
        x_from=-0.5,
        x_to=len(columns) - 0.5,
        y_from=1.0,
        y_to=highest,
    )
    names = [str(column.candidate.num_steps) for column in columns]
    keys = [*HEAT_KEYS, ("even", "breaks even (90 %)")]
    keys += [] if supposed else [("s4", "your acceptance")]
    drawn = [
        legend(keys, 10, 18, _WIDTH - 20),
        x_axis(axes, range(len(columns)), "draft steps", lambda value: names[int(value)]),
        y_axis(axes, range(1, int(highest) + 1), "accept length of that step count"),
        *(_cells(axes, place, column) for place, column in enumerate(columns)),
        *_other_lines(axes, columns, lengths, steps),
        *(_even(axes, place, column) for place, column in enumerate(columns)),
        *(() if supposed else _own_line(axes, columns)),
    ]
    return Figure(
        key=key,
        title="Step count by acceptance",
        caption=_caption(forecast, lengths, supposed),
        drawing=picture(
            _WIDTH, axes.bottom + 44, "Gain over plain decoding by step count and accept length", *drawn
        ),
        numbers=_numbers(columns, supposed),
    )


def _highest(columns: Sequence[_Column], supposed: bool) -> float:
    """Return the longest accept length shown: well above what breaks even and what is forecast."""
    possible = max(column.candidate.num_steps for column in columns) + 1.0
    looked_at = [column.known for column in columns]
    looked_at += [] if supposed else [column.candidate.accept_length for column in columns]
    known = [length for length in looked_at if length is not None]
    wanted = float(ceil(2 * max(known))) if known else _HIGHEST
    return min(possible, max(wanted, _LEAST_HIGH))


def _columns(forecast: Forecast) -> list[_Column]:
    found: dict[int, Candidate] = {}
    for one in forecast.candidates:
        found.setdefault(one.num_steps, one)
    evens = {(one.num_steps, one.draft_tp): one for one in forecast.break_even_accept_length}
    return [
        _Column(candidate=one, even=evens[steps, one.draft_tp])
        for steps, one in sorted(found.items())
        if steps > 0 and (steps, one.draft_tp) in evens
    ]


def _cells(axes: Axes, place: int, column: _Column) -> Markup:
    """Return the column of one step count up to the length that it can give."""
    steps = column.candidate.num_steps
    count = ceil((min(steps + 1.0, axes.y_to) - 1) * _ROWS_PER_TOKEN)
    left, width = axes.x(place - 0.5) + 1, axes.x(place + 0.5) - axes.x(place - 0.5) - 2
    drawn = []
    if column.known is None:
        top = axes.y(min(steps + 1.0, axes.y_to))
        drawn.append(heat_cell(left, top, width, axes.bottom - top, None, f"{steps} steps: not determined"))
        count = 0
    for row in range(count):
        low = 1 + row / _ROWS_PER_TOKEN
        length = low + 0.5 / _ROWS_PER_TOKEN
        gain = length / column.known - 1 if column.known else None
        top = axes.y(low + 1 / _ROWS_PER_TOKEN)
        said = f"{steps} steps at {length:.2f} tokens a cycle: {gain:+.0%}" if gain is not None else ""
        drawn.append(heat_cell(left, top, width, axes.y(low) - top, gain, said))
    return Markup("").join(drawn)


def _even(axes: Axes, place: int, column: _Column) -> Markup:
    x, drawn = axes.x(place), []
    low, high = column.even.lo, column.even.hi
    if low is not None and low < axes.y_to:
        end = axes.y_to if high is None else min(high, axes.y_to)
        drawn.append(whisker(x, axes.y(max(low, 1.0)), axes.y(max(end, 1.0)), "even-line"))
    if column.known is not None and 1 <= column.known <= axes.y_to:
        y = axes.y(column.known)
        drawn.append(line(axes.x(place - 0.5), y, axes.x(place + 0.5), y, "even-line thick"))
    return Markup("").join(drawn)


def _own_line(axes: Axes, columns: Sequence[_Column]) -> list[Markup]:
    """Return the accept lengths that the forecast takes."""
    points = [
        (axes.x(place), axes.y(min(length, axes.y_to)), length)
        for place, column in enumerate(columns)
        if (length := column.candidate.accept_length) is not None
    ]
    dots = [
        element("circle", hover(f"accept length {length:.2f}"), cx=x, cy=y, r=4.5, class_="s4")
        for x, y, length in points
    ]
    return [polyline([(x, y) for x, y, _ in points], "line s4-line"), *dots]


def _other_lines(
    axes: Axes, columns: Sequence[_Column], lengths: AcceptLengthLines | None, steps: Sequence[int]
) -> list[Markup]:
    """Return thin lines of other acceptances, each the same traffic at every step count."""
    if lengths is None or len(lengths.given) < _LINES + 2:
        return []
    drawn = []
    for part in range(1, _LINES + 1):
        row = lengths.values[len(lengths.given) * part // (_LINES + 1)]
        by_steps = dict(zip(steps, row, strict=True))
        points = [
            (axes.x(place), axes.y(min(by_steps[column.candidate.num_steps], axes.y_to)))
            for place, column in enumerate(columns)
            if column.candidate.num_steps in by_steps
        ]
        if points:
            drawn.append(polyline(points, "isoline"))
            last = by_steps[columns[-1].candidate.num_steps]
            if last <= axes.y_to:
                drawn.append(text(axes.right + 4, points[-1][1] + 4, f"{last:.1f}", "tick"))
    return drawn


def _caption(forecast: Forecast, lengths: AcceptLengthLines | None, supposed: bool) -> str:
    batch = forecast.inputs.get("batch_size")
    said = f"At batch {batch}: above the thick bar of a step count speculation is faster."
    if lengths is not None:
        said += (
            " Each thin line is one acceptance over all step counts; the number at its end is its accept "
            "length at the last of them."
        )
    if not supposed:
        said += " The dots are the acceptance of this forecast."
    return said


def _numbers(columns: Sequence[_Column], supposed: bool) -> Numbers:
    rows = tuple(
        (
            str(column.candidate.num_steps),
            number(column.known, 2),
            "-" if column.even.lo is None else f"{number(column.even.lo, 2)} to {number(column.even.hi, 2)}",
            "-" if supposed else number(column.candidate.accept_length, 2),
        )
        for column in columns
    )
    return Numbers(columns=("steps", "breaks even at", "90 %", "accept length forecast"), rows=rows)
