"""Throughput over the step count, with intervals, against plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    VERMILION,
    footnote,
    new_figure,
    styled,
)
from toolkit.figures.wording import acceptance_label, forecast_label, steps_label
from toolkit.schema.forecast import Candidate, Forecast


@styled
def throughput_figure(forecast: Forecast) -> Figure:
    """Return tokens per second of each step count with 90 % intervals, and plain decoding as a line.

    Step counts that the runs do not determine are ranges without a value. ValueError if none has a range.
    """
    chosen = forecast.recommendation.candidate
    usual = forecast.candidates[0].draft_tp if forecast.candidates else None
    shown = [one for one in forecast.candidates if one.tok_s.lo is not None and one.draft_tp in (usual, None)]
    if not shown:
        raise ValueError("the forecast holds no tokens per second")
    figure, (axes,) = new_figure(
        f"Throughput by step count: {acceptance_label(forecast)}", forecast_label(forecast), height=4.2
    )
    _plain_line(axes, forecast)
    _ranges(axes, [one for one in shown if not one.determined])
    _points(axes, [one for one in shown if one.determined])
    if chosen is not None and forecast.candidates[chosen] in shown:
        _mark(axes, forecast.candidates[chosen], forecast.recommendation.action, _highest(shown))
    steps = sorted({one.num_steps for one in shown})
    axes.set_xticks(steps)
    axes.set_xlim(steps[0] - 0.6, steps[-1] + 0.6)
    axes.set_ylim(bottom=0, top=1.12 * _highest(shown))
    axes.set_xlabel("draft steps (0: plain decoding)")
    axes.set_ylabel("tokens per second, all requests")
    axes.grid(axis="y")
    footnote(figure, _note(shown))
    return figure


def _plain_line(axes: Axes, forecast: Forecast) -> None:
    speed = forecast.baseline.tok_s
    if speed.lo is not None and speed.hi is not None:
        axes.axhspan(speed.lo, speed.hi, color=ORANGE, alpha=0.22, linewidth=0)
    if speed.value is not None:
        axes.axhline(speed.value, color=ORANGE, linewidth=1.6, linestyle="--")
        axes.annotate(
            f"plain\ndecoding\n{speed.value:,.0f}",
            (1.0, speed.value),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),  # beside the panel: inside it would lie on intervals
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            annotation_clip=False,
        )


def _points(axes: Axes, known: Sequence[Candidate]) -> None:
    """Draw values with intervals; hollow where the forecast leaves what was measured."""
    for one in known:
        value, lo, hi = _speed(one), one.tok_s.lo or 0.0, one.tok_s.hi or 0.0
        axes.errorbar(
            [one.num_steps],
            [value],
            yerr=[[max(value - lo, 0.0)], [max(hi - value, 0.0)]],
            color=BLUE,
            marker="o",
            markersize=7,
            markerfacecolor="white" if one.extrapolated else BLUE,
            capsize=3,
            linewidth=1.4,
        )
    for one, after in pairwise(sorted(known, key=lambda one: one.num_steps)):
        if after.num_steps - one.num_steps == 1:  # nothing is said of what lies between others
            steps, speeds = (one.num_steps, after.num_steps), (_speed(one), _speed(after))
            axes.plot(steps, speeds, color=BLUE, linewidth=0.8, zorder=1)


def _ranges(axes: Axes, unknown: Sequence[Candidate]) -> None:
    for one in unknown:
        lo, hi = one.tok_s.lo or 0.0, one.tok_s.hi or 0.0
        axes.bar(one.num_steps, hi - lo, 0.5, lo, color="white", edgecolor=GREY, hatch="////", linewidth=0.8)


def _highest(shown: Sequence[Candidate]) -> float:
    return max(one.tok_s.hi or 0.0 for one in shown)


def _mark(axes: Axes, chosen: Candidate, action: str, highest: float) -> None:
    """Ring the setting that is recommended; the words stand above all intervals, where nothing else is."""
    text = steps_label(chosen.num_steps) if action == "use" else action
    axes.annotate(
        f"{'use ' if action == 'use' else ''}{text}",
        (chosen.num_steps, 1.06 * highest),
        ha="center" if chosen.num_steps else "left",
        va="center",
        fontsize=9,
        fontweight="bold",
        color=INK,
    )
    axes.plot([chosen.num_steps], [_speed(chosen)], "o", ms=13, mfc="none", mec=VERMILION, mew=1.8)


def _speed(one: Candidate) -> float:
    return one.tok_s.value or 0.0


def _note(shown: Sequence[Candidate]) -> str:
    said = ["Bars: 90 % intervals, model error included"]
    if any(one.extrapolated and one.determined for one in shown):
        said.append("hollow: beyond what was measured")
    if not all(one.determined for one in shown):
        said.append("hatched: not determined by the runs, anywhere in the range")
    return "; ".join(said) + "."
