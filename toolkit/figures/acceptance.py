"""Acceptance by position, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from toolkit.analysis.position_intervals import position_intervals, to_last_position
from toolkit.figures.comparison import Measured
from toolkit.figures.style import MARKERS, SERIES, footnote, new_figure, styled
from toolkit.figures.wording import load_label, server_label


@styled
def acceptance_figure(measured: Sequence[Measured]) -> Figure:
    """Return the share of cycles that kept draft 1, 2, ..., a line for each of up to seven configurations.

    Bars are 90 % intervals; `positions.with_positions` finds configurations that have positions.
    """
    measured = measured[: len(SERIES)]
    if not measured:
        raise ValueError("no configuration has acceptance by position")
    figure, (axes,) = new_figure("Acceptance by position", server_label(measured[0][0]), width=8, height=4.2)
    most = 1
    for place, (_, cell) in enumerate(measured):
        assert cell.acceptance is not None
        counted = to_last_position(cell.acceptance, cell.num_steps)
        shares, ends = counted.accept_by_position, position_intervals(counted)
        most = max(most, cell.num_steps or 0, len(shares))
        shift = 0.07 * (place - (len(measured) - 1) / 2)
        errors = [
            [share - lo for share, (lo, _) in zip(shares, ends, strict=True)],
            [hi - share for share, (_, hi) in zip(shares, ends, strict=True)],
        ]
        length = cell.acceptance.accept_length
        label = load_label(cell) + (f": {length:.2f} tokens a cycle" if length else "")
        axes.errorbar(
            [position + shift for position in range(1, len(shares) + 1)],
            shares,
            yerr=errors,
            color=SERIES[place],
            marker=MARKERS[place],
            markersize=6,
            linewidth=1.4,
            capsize=3,
            label=label,
        )
    axes.set_xlim(0.5, most + 0.5)
    axes.set_xticks(range(1, most + 1))
    axes.set_ylim(-0.03, 1.04)
    axes.set_xlabel("position of the draft in the chain")
    axes.set_ylabel("share of cycles that kept it")
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0)
    footnote(figure, _note(measured))
    return figure


def _note(measured: Sequence[Measured]) -> str:
    simulated = {run.acceptance_kind for run, _ in measured} == {"simulated"}
    text = "90 % intervals; 0: no cycle kept that draft"
    return f"{text}. Acceptance is simulated." if simulated else f"{text}."
