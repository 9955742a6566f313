"""Tokens per second of every step count with its 90 % interval, and how often each is the fastest."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.svg import (
    Axes,
    box,
    element,
    hover,
    legend,
    line,
    picture,
    text,
    ticks,
    whisker,
    x_axis,
    y_axis,
)
from toolkit.report.tables import number
from toolkit.schema.forecast import Candidate, Forecast, Interval

_WIDTH = 760
_LEAST_CHANCE = 0.005  # less rounds to 0%
_KEYS = [
    ("s1", "determined by the runs"),
    ("open", "open: only the range is known"),
    ("s0", "chance to be the fastest"),
]


def candidates_figure(key: str, forecast: Forecast, *, supposed: bool) -> Figure | None:
    """Return the candidates at the draft TP that was run; their cycles where no acceptance is known."""
    candidates = _own(forecast)
    values = [_interval(one, supposed) for one in candidates]
    ends = [end for one in values for end in (one.value, one.lo, one.hi) if end is not None]
    if not candidates or not ends:
        return None
    top = max(ends) * 1.05
    axes = Axes(
        left=64, right=_WIDTH - 16, top=56, bottom=256, x_from=-0.5, x_to=len(candidates) - 0.5, y_to=top
    )
    names = [str(one.num_steps) for one in candidates]
    label = "ms a cycle" if supposed else "tokens per second"
    drawn = [
        legend(_KEYS[:2] if supposed else _KEYS, 10, 18, _WIDTH - 20),
        x_axis(
            axes, range(len(candidates)), "draft steps (0: plain decoding)", lambda value: names[int(value)]
        ),
        y_axis(axes, ticks(0, top, 5), label),
        *(_band(axes, forecast) if not supposed else ()),
        *(
            _point(axes, place, one, found)
            for place, (one, found) in enumerate(zip(candidates, values, strict=True))
        ),
        *(() if supposed else (_chance(axes, place, one) for place, one in enumerate(candidates))),
    ]
    return Figure(
        key=key,
        title="Candidates" if not supposed else "Cycle of each step count",
        caption=_caption(supposed),
        drawing=picture(_WIDTH, axes.bottom + 44, f"{label} of each step count with 90 % intervals", *drawn),
        numbers=candidate_numbers(forecast, supposed=supposed),
    )


def _own(forecast: Forecast) -> list[Candidate]:
    """Return one candidate a step count: those at another draft TP, which come last, have another figure."""
    found: dict[int, Candidate] = {}
    for one in forecast.candidates:
        found.setdefault(one.num_steps, one)
    return [found[steps] for steps in sorted(found)]


def _interval(one: Candidate, supposed: bool) -> Interval:
    return one.cycle_ms if supposed else one.tok_s


def _band(axes: Axes, forecast: Forecast) -> tuple[Markup, ...]:
    """Return the interval of plain decoding across the figure: what every step count has to beat."""
    plain = forecast.baseline.tok_s
    if plain.value is None or plain.lo is None or plain.hi is None:
        return ()
    low, high = axes.y(plain.lo), axes.y(min(plain.hi, axes.y_to))
    return (
        box(axes.left, high, axes.right - axes.left, low - high, "band"),
        line(axes.left, axes.y(plain.value), axes.right, axes.y(plain.value), "mark"),
    )


def _point(axes: Axes, place: int, one: Candidate, found: Interval) -> Markup:
    x, class_ = axes.x(place), "s1" if one.determined else "open"
    if found.lo is None and found.hi is None and found.value is None:
        return text(x, axes.bottom - 8, "?", "tick", "middle")
    low = axes.y_from if found.lo is None else found.lo
    high = axes.y_to if found.hi is None else found.hi
    said = f"{one.num_steps} steps: {number(found.value)} ({number(found.lo)} to {number(found.hi)})"
    drawn = [whisker(x, axes.y(low), axes.y(min(high, axes.y_to)), f"{class_}-line")]
    if found.value is not None and one.determined:
        drawn.append(element("circle", hover(said), cx=x, cy=axes.y(found.value), r=5, class_=class_))
    return Markup("").join(drawn)


def _chance(axes: Axes, place: int, one: Candidate) -> Markup:
    """Return a bar at the bottom, its height the chance to be the fastest (a fifth of the figure is all)."""
    if not one.p_best or one.p_best < _LEAST_CHANCE or not one.determined:
        return Markup("")
    height = one.p_best * (axes.bottom - axes.top) / 5
    x = axes.x(place)
    return box(
        x + 9, axes.bottom - height, 12, height, "s0", hover(f"{one.p_best:.0%} to be the fastest")
    ) + text(x + 15, axes.bottom - height - 4, f"{one.p_best:.0%}", "tick", "middle")


def _caption(supposed: bool) -> str:
    if supposed:
        return (
            "Dots are forecasts, bars their 90 % intervals. No acceptance is known, so there are no tokens "
            "per second: give --accept-rate or --accept-length."
        )
    return (
        "Dots are forecasts, bars their 90 % intervals; the dashed line with its band is plain decoding. "
        "Intervals hold errors that all step counts share, so they overlap more than the ranking is unsure: "
        "the chance to be the fastest compares paired draws."
    )


def candidate_numbers(forecast: Forecast, *, supposed: bool) -> Numbers:
    """Return the candidates as a table, break-even beside each."""
    even = {(one.num_steps, one.draft_tp): one.accept_length for one in forecast.break_even_accept_length}
    rows = []
    for one in _own(forecast):
        chance = "-" if one.p_best is None or not one.determined else f"{one.p_best:.0%}"
        speed = [number(one.accept_length, 2), *_shown(one.tok_s, one, 1), chance]
        rows.append(
            (
                "plain" if one.num_steps == 0 else str(one.num_steps),
                str(one.num_draft_tokens),
                *_shown(one.cycle_ms, one, 2),
                *([] if supposed else speed),
                number(even.get((one.num_steps, one.draft_tp)), 2),
                "; ".join(one.extrapolated) or "-",
            )
        )
    speed_columns = () if supposed else ("accept length", "tok/s", "90 % of it", "P(best)")
    columns = (
        "steps",
        "draft tokens",
        "cycle ms",
        "90 %",
        *speed_columns,
        "breaks even at",
        "beyond the runs",
    )
    return Numbers(columns=columns, rows=tuple(rows))


def _shown(found: Interval, one: Candidate, digits: int) -> Sequence[str]:
    ends = (
        "-"
        if found.lo is None and found.hi is None
        else f"{number(found.lo, digits)} to {number(found.hi, digits)}"
    )
    return (number(found.value, digits) if one.determined else "open", ends)
