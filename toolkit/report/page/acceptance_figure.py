"""Share of cycles that kept each draft position, with 90 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from toolkit.analysis.position_intervals import position_intervals, to_last_position
from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.svg import (
    Axes,
    element,
    hover,
    legend,
    legend_rows,
    picture,
    polyline,
    whisker,
    x_axis,
    y_axis,
)
from toolkit.report.tables import counted, number
from toolkit.schema.cost import AcceptanceCurve
from toolkit.schema.inspection import AcceptanceReport, Configuration, RunReport

_WIDTH, _HEIGHT = 760, 250
_MOST_SERIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    name: str
    shares: tuple[float, ...]
    ends: tuple[tuple[float, float], ...]
    cycles: int


def acceptance_figure(
    key: str, measured: Sequence[tuple[RunReport, Configuration]], curve: AcceptanceCurve | None
) -> Figure | None:
    """Return acceptance by position as counted, and the curve of forecasts; None where nobody counted."""
    series = _series(measured, curve)
    if not series:
        return None
    entries = [(f"s{place}", one.name) for place, one in enumerate(series)]
    top = 38 + 18 * legend_rows(entries, _WIDTH - 20)
    positions = max(len(one.shares) for one in series)
    axes = Axes(
        left=64, right=_WIDTH - 16, top=top, bottom=top + _HEIGHT - 90, x_from=0.5, x_to=positions + 0.5
    )
    drawn = [
        legend(entries, 10, 18, _WIDTH - 20),
        x_axis(axes, range(1, positions + 1), "draft position"),
        y_axis(axes, (0, 0.25, 0.5, 0.75, 1), "share of cycles", lambda value: f"{value:.0%}"),
    ]
    drawn += [_line(axes, place, one, len(series)) for place, one in enumerate(series)]
    return Figure(
        key=key,
        title="Acceptance by position",
        caption=_caption(measured, curve),
        drawing=picture(_WIDTH, axes.bottom + 44, "Share of cycles that kept each draft position", *drawn),
        numbers=_numbers(series),
    )


def _series(
    measured: Sequence[tuple[RunReport, Configuration]], curve: AcceptanceCurve | None
) -> list[_Series]:
    """Return the pooled curve first, then the best counted configuration of each step count and kind."""
    made = [] if curve is None else [_pooled(curve)]
    found: dict[tuple[int | None, str | None], _Series] = {}
    found_in = [(run, cell, cell.acceptance) for run, cell in measured if cell.acceptance]
    for run, cell, accepted in sorted(found_in, key=lambda one: -(one[2].cycles or 0)):
        if accepted.accept_by_position and (cell.num_steps, run.acceptance_kind) not in found:
            kind = run.acceptance_kind or "kind not known"
            counts = to_last_position(accepted, cell.num_steps)
            found[cell.num_steps, run.acceptance_kind] = _Series(
                name=f"{counted(cell.num_steps, 'step')}, {kind}",
                shares=counts.accept_by_position,
                ends=position_intervals(counts),
                cycles=counts.cycles,
            )
    made += sorted(found.values(), key=lambda one: len(one.shares))
    return made[:_MOST_SERIES]


def _pooled(curve: AcceptanceCurve) -> _Series:
    """Return the curve that forecasts use: hazards multiplied, counts divided by their design effect."""
    shares, survival = [], 1.0
    for kept, at_risk in zip(curve.kept, curve.at_risk, strict=True):
        survival *= kept / at_risk if at_risk else 0.0
        shares.append(survival)
    cycles = int((curve.at_risk[0] if curve.at_risk else 0.0) / max(curve.design_effect, 1.0))
    like = AcceptanceReport(accept_length=None, accept_by_position=tuple(shares), cycles=cycles)
    return _Series(
        name="pooled over runs", shares=tuple(shares), ends=position_intervals(like), cycles=cycles
    )


def _line(axes: Axes, place: int, one: _Series, of: int) -> Markup:
    aside = (place - (of - 1) / 2) * 7  # series side by side, so that intervals do not cover each other
    points = [(axes.x(position) + aside, axes.y(share)) for position, share in enumerate(one.shares, start=1)]
    drawn = [polyline(points, f"line s{place}-line")]
    for (x, y), (low, high), share in zip(points, one.ends, one.shares, strict=True):
        drawn.append(whisker(x, axes.y(low), axes.y(high), f"s{place}-line"))
        said = f"{one.name}: {share:.1%} ({low:.1%} to {high:.1%})"
        drawn.append(element("circle", hover(said), cx=x, cy=y, r=4, class_=f"s{place}"))
    return Markup("").join(drawn)


def _caption(measured: Sequence[tuple[RunReport, Configuration]], curve: AcceptanceCurve | None) -> str:
    said = "Share of cycles that kept the draft at each position or went further; bars are 90 % intervals."
    if any(run.acceptance_kind == "simulated" for run, _ in measured):
        said += " Simulated acceptance is what the server was told to pretend: no forecast takes it."
    if curve is None:
        said += " No real acceptance was counted by position, so forecasts use the prior of public heads."
    return said


def _numbers(series: Sequence[_Series]) -> Numbers:
    rows = tuple(
        (one.name, str(position), number(share, 3), f"{low:.3f} to {high:.3f}", f"{one.cycles:,}")
        for one in series
        for position, (share, (low, high)) in enumerate(zip(one.shares, one.ends, strict=True), start=1)
    )
    return Numbers(columns=("of", "position", "share", "90 %", "cycles"), rows=rows)
