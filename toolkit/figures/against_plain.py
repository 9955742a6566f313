"""Where the time of a token goes, against plain decoding."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.bars import draw_parts, phase_legend
from toolkit.figures.comparison import Comparison, Measured
from toolkit.figures.cycle_parts import Part, mean_parts
from toolkit.figures.style import INK, WHITE_BOX, footnote, new_figure, styled
from toolkit.figures.wording import server_label, steps_label
from toolkit.schema.inspection import Configuration

_MS = 1e-3  # of a us


@styled
def against_plain_figure(compared: Comparison) -> Figure:
    """Return the time of one token by phase, a bar for plain decoding and one for each step count.

    A cycle's time is divided by its accept length, so a bar that ends before the dashed line pays.
    `comparison.comparisons` finds what can be compared.
    """
    bars = (compared.plain, *compared.speculative)
    parts = [_parts(cell) for _, cell in bars]
    ends = [_token_ms(one) for one in bars]
    run, cell = compared.plain
    figure, (axes,) = new_figure(
        "Time of one token against plain decoding",
        f"{server_label(run)}, batch {cell.batch_size}",
        width=10.5,
        height=max(3.0, 1.7 + 0.5 * len(bars)),
    )
    drawn = [sum(part.us for part in own) / _length(one) * _MS for own, one in zip(parts, bars, strict=True)]
    right = 1.28 * max(*ends, *drawn)
    for place, (one, own) in enumerate(zip(bars, parts, strict=True)):
        end = draw_parts(axes, place, own, scale=_MS / _length(one), right=right)
        _end_label(axes, place, max(end, ends[place]), one, ends[0] / ends[place])
    axes.axvline(ends[0], color=INK, linestyle="--", linewidth=1.2, zorder=0.9)
    axes.set_yticks(range(len(bars)), [steps_label(cell.num_steps) for _, cell in bars])
    axes.set_ylim(len(bars) - 0.5, -0.6)
    axes.set_xlim(0, right)
    axes.set_xlabel("ms a token of one request: time of the cycle / accept length")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    phase_legend(axes, parts)
    footnote(figure, _note(compared))
    return figure


def _parts(cell: Configuration) -> tuple[Part, ...]:
    """Return the parts of a cycle; a cycle that nothing took apart is one part."""
    whole = cell.cycle_us.mean if cell.cycle_us else 0.0
    return mean_parts(cell) or (Part("rest", whole),)


def _length(one: Measured) -> float:
    acceptance = one[1].acceptance
    return (acceptance.accept_length if acceptance else None) or 1.0


def _token_ms(one: Measured) -> float:
    cycle = one[1].cycle_us
    return (cycle.mean if cycle else 0.0) / _length(one) * _MS


def _end_label(axes: Axes, y: float, end: float, one: Measured, speed_up: float) -> None:
    """Write the time of a token behind its bar, with what it is made of."""
    own = _token_ms(one)
    axes.plot([own] * 2, [y - 0.36, y + 0.36], color=INK, linewidth=2)
    text = f"{own:.2f} ms"
    if one[1].num_steps:
        text += f", {_length(one):.2f} tokens a cycle\n{speed_up:.2f} x plain decoding"
    axes.annotate(
        text,
        (end, y),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        bbox=WHITE_BOX,
    )


def _note(compared: Comparison) -> str:
    kinds = {run.acceptance_kind for run, _ in compared.speculative}
    simulated = "; acceptance is simulated" if kinds == {"simulated"} else ""
    return f"Black mark: the mean cycle. Phases are medians, means over ranks{simulated}."
