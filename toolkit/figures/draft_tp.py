"""What another draft TP would do: the draft's time and the gain in tokens per second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.style import BLUE, INK, ORANGE, footnote, new_figure, styled
from toolkit.figures.wording import forecast_label, steps_label
from toolkit.schema.forecast import Candidate, Forecast, Interval

Point = tuple[int, Interval]


@styled
def draft_tp_figure(forecast: Forecast) -> Figure:
    """Return two panels over the draft's TP size: time of draft and extend, and gain, with 90 % intervals.

    The draft's TP today is the reference of the gains. ValueError if no other TP could be forecast.
    """
    answer, today = forecast.draft_tp, _today(forecast)
    if not answer.sizes:
        raise ValueError("no other draft TP could be forecast: fit a calibration of the host with the runs")
    drafts: list[Point] = [(one.draft_tp, one.draft_ms) for one in answer.sizes]
    gains: list[Point] = [(one.draft_tp, one.gain) for one in answer.sizes]
    if today is not None and today.draft_tp is not None:
        if today.draft_ms is not None:
            drafts.append((today.draft_tp, today.draft_ms))
        gains.append((today.draft_tp, Interval(value=0.0, lo=0.0, hi=0.0)))
    current = today.draft_tp if today is not None else None
    figure, (left, right) = new_figure(
        "The draft on fewer or more GPUs", forecast_label(forecast), width=9, height=4.0, columns=2
    )
    sizes = sorted({size for size, _ in (*drafts, *gains)})
    _points(left, drafts, sizes, current)
    left.set_ylim(bottom=0)
    left.set_ylabel("draft and extend, ms a cycle")
    _points(right, [(size, _percent(gain)) for size, gain in gains], sizes, current)
    right.axhline(0, color=INK, linewidth=1)
    right.set_ylabel("gain in tokens per second, %")
    if answer.most_gain is not None:
        free = 100 * answer.most_gain
        right.axhline(free, color=ORANGE, linestyle="--", linewidth=1.6)
        right.annotate(f"a free draft: {free:+.1f} %", (-0.45, free), xytext=(0, 4), **_ABOVE)
        right.set_ylim(top=max(right.get_ylim()[1], 1.15 * free))
    count = f" of {steps_label(today.num_steps)}" if today is not None else ""
    footnote(figure, f"Cycle{count}; 90 % intervals; hollow: the TP of today.")
    return figure


_ABOVE: dict[str, Any] = {"textcoords": "offset points", "ha": "left", "fontsize": 8.5}


def _today(forecast: Forecast) -> Candidate | None:
    """Return the candidate whose draft is discussed, at the TP that it has now."""
    others = {one.draft_tp for one in forecast.draft_tp.sizes}
    chosen = forecast.recommendation.candidate
    first = [forecast.candidates[chosen]] if chosen is not None else []
    speculative = [one for one in (*first, *forecast.candidates) if one.num_steps]
    return next((one for one in speculative if one.draft_tp not in others), None)


def _percent(gain: Interval) -> Interval:
    ends = [None if end is None else 100 * end for end in (gain.value, gain.lo, gain.hi)]
    return Interval(value=ends[0], lo=ends[1], hi=ends[2])


def _points(axes: Axes, points: Sequence[Point], sizes: Sequence[int], current: int | None) -> None:
    for size, interval in points:
        if interval.value is None:
            continue
        lo = interval.value if interval.lo is None else interval.lo
        hi = interval.value if interval.hi is None else interval.hi
        axes.errorbar(
            [sizes.index(size)],
            [interval.value],
            yerr=[[max(interval.value - lo, 0.0)], [max(hi - interval.value, 0.0)]],
            color=BLUE,
            marker="o",
            markersize=8,
            markerfacecolor="white" if size == current else BLUE,
            capsize=4,
            linewidth=1.6,
        )
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_xlabel("GPUs that the draft is split over (draft TP)")
    axes.grid(axis="y")
