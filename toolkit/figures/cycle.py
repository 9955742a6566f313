"""One cycle by phase and rank, to scale."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.bars import draw_parts, phase_legend
from toolkit.figures.cycle_parts import Part, parts_of
from toolkit.figures.style import INK, footnote, new_figure, styled
from toolkit.figures.wording import load_label, server_label
from toolkit.schema.inspection import Configuration, RunReport

_MS = 1e-3  # of a us


@styled
def cycle_figure(run: RunReport, cell: Configuration) -> Figure:
    """Return the phases of a configuration's cycle laid end to end, a bar for each rank, in ms.

    Phases are medians, so they need not add up to the median cycle. ValueError if it has no phases.
    """
    cycle = cell.cycle_us.median if cell.cycle_us else None
    bars = {rank.tp_rank: parts_of(rank, cycle) for rank in cell.ranks}
    bars = {rank: parts for rank, parts in bars.items() if parts}
    if not bars:
        raise ValueError(f"{run.run} has no phases to draw")
    figure, (axes,) = new_figure(
        f"One cycle of {load_label(cell)}",
        server_label(run),
        width=10,
        height=max(2.9, 1.7 + 0.5 * len(bars)),
    )
    right = 1.04 * max([sum(part.us for part in parts) for parts in bars.values()] + [cycle or 0.0]) * _MS
    for place, parts in enumerate(bars.values()):
        draw_parts(axes, place, parts, scale=_MS, right=right)
        _draft_forwards(cell, parts, axes, place)
    axes.set_yticks(range(len(bars)), [f"rank {rank}" for rank in bars])
    axes.set_ylim(len(bars) - 0.5, -0.6)
    axes.set_xlim(0, right)
    axes.set_xlabel("ms, phases laid end to end")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if cycle is not None:
        axes.axvline(cycle * _MS, color=INK, linestyle="--", linewidth=1.2)
        axes.set_title(f"cycle {cycle * _MS:.2f} ms (median, from {cell.cycle_source})", loc="right", pad=8)
    phase_legend(axes, bars.values())
    footnote(figure, _note(run, cell))
    return figure


def _draft_forwards(cell: Configuration, parts: tuple[Part, ...], axes: Axes, y: float) -> None:
    """Mark the ends of the single draft forwards inside the draft pass, where they are known."""
    forwards = [step.median_us for step in cell.draft_steps if not step.is_extend]
    draft = next((part.us for part in parts if part.phase == "draft" and part.graph), 0.0)
    if len(forwards) < 2 or sum(forwards) > draft:
        return
    end = 0.0
    for forward in forwards[:-1]:
        end += forward
        axes.plot([end * _MS] * 2, [y - 0.31, y + 0.31], color="white", linewidth=0.8)


def _note(run: RunReport, cell: Configuration) -> str:
    said = [run.run, f"{cell.cycles:,} cycles", "medians of phases"]
    if cell.trace_inflation and cell.trace_inflation > 1.05:
        said.append(f"the traced cycle was {cell.trace_inflation:.2f} times as long")
    return "; ".join(said)
