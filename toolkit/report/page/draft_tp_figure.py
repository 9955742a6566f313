"""The draft at other TP sizes: what runs or a calibration say it would gain or lose."""

from __future__ import annotations

from markupsafe import Markup

from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.svg import Axes, element, hover, line, picture, text, ticks, x_axis
from toolkit.report.tables import number, signed_share
from toolkit.schema.forecast import DraftTpAnswer, DraftTpSize, Forecast, Interval

_WIDTH, _LEFT, _ROW = 760, 120, 34
_MIB = 1 << 20
_LEAST_TICK = 0.0005  # less is printed as none


def draft_tp_figure(key: str, forecast: Forecast) -> Figure | None:
    """Return the gain of each size with its interval; None where no other size is known as a value."""
    answer = forecast.draft_tp
    sizes = [size for size in answer.sizes if size.gain.value is not None]
    if not sizes:
        return None
    ends = [end for size in sizes for end in (size.gain.value, size.gain.lo, size.gain.hi) if end is not None]
    low, high = min([*ends, -0.01]), max([*ends, 0.01])
    room = 0.05 * (high - low)
    axes = Axes(
        left=_LEFT,
        right=_WIDTH - 110,
        top=24,
        bottom=24 + _ROW * len(sizes),
        x_from=low - room,
        x_to=high + room,
    )
    drawn = [
        x_axis(axes, ticks(axes.x_from, axes.x_to, 6), "gain in tokens per second", _tick),
        line(axes.x(0.0), axes.top - 6, axes.x(0.0), axes.bottom, "mark"),
        *(_row(axes, axes.top + place * _ROW, size) for place, size in enumerate(sizes)),
    ]
    return Figure(
        key=key,
        title="The draft at another TP",
        caption=_caption(answer) + _not_told(forecast),
        drawing=picture(_WIDTH, axes.bottom + 44, "Gain of each draft TP size with 90 % intervals", *drawn),
        numbers=_numbers(sizes),
    )


def _tick(value: float) -> str:
    return "0%" if abs(value) < _LEAST_TICK else f"{value:+.1%}"


def _not_told(forecast: Forecast) -> str:
    """Name sizes that were asked for and are not drawn, because the runs leave them open."""
    open_at = sorted({one.draft_tp for one in forecast.candidates if one.draft_tp and not one.determined})
    told = {one.draft_tp for one in forecast.candidates if one.determined}
    missing = [f"TP{size}" for size in open_at if size not in told]
    return f" Not determined: draft at {', '.join(missing)}." if missing else ""


def _row(axes: Axes, y: float, size: DraftTpSize) -> Markup:
    gain, middle = size.gain, y + _ROW / 2
    assert gain.value is not None
    low = gain.value if gain.lo is None else gain.lo
    high = gain.value if gain.hi is None else gain.hi
    said = f"draft TP {size.draft_tp}: {gain.value:+.1%} ({low:+.1%} to {high:+.1%})"
    ends = [
        line(axes.x(low), middle, axes.x(high), middle, "s1-line"),
        line(axes.x(low), middle - 4, axes.x(low), middle + 4, "s1-line"),
        line(axes.x(high), middle - 4, axes.x(high), middle + 4, "s1-line"),
    ]
    return Markup("").join(
        [
            text(axes.left - 8, middle + 4, f"draft TP {size.draft_tp}", "tick", "end"),
            *ends,
            element("circle", hover(said), cx=axes.x(gain.value), cy=middle, r=5, class_="s1"),
            text(axes.right + 10, middle + 4, signed_share(gain.value), "value"),
        ]
    )


def _caption(answer: DraftTpAnswer) -> str:
    why = f"{answer.why[:1].upper()}{answer.why[1:]}."
    said = f"Against the draft as it runs now; bars are 90 % intervals. {why}"
    if answer.break_even_allreduce_us is not None:
        said += f" Both take equally long where a collective takes {answer.break_even_allreduce_us:.1f} us."
    return said


def _numbers(sizes: list[DraftTpSize]) -> Numbers:
    rows = tuple(
        (
            str(size.draft_tp),
            *_shown(size.draft_ms, 3),
            *_shown(size.cycle_ms, 3),
            "-" if size.gain.value is None else signed_share(size.gain.value),
            "-"
            if size.gain.lo is None or size.gain.hi is None
            else f"{signed_share(size.gain.lo)} to {signed_share(size.gain.hi)}",
            number(None if size.weight_bytes is None else size.weight_bytes / _MIB, 0),
            size.reachable.how,
        )
        for size in sizes
    )
    columns = (
        "draft TP",
        "draft ms",
        "90 %",
        "cycle ms",
        "90 %",
        "gain",
        "90 %",
        "MiB on each GPU",
        "engine can",
    )
    return Numbers(columns=columns, rows=rows)


def _shown(found: Interval, digits: int) -> tuple[str, str]:
    return number(found.value, digits), f"{number(found.lo, digits)} to {number(found.hi, digits)}"
