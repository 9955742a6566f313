"""Where the time of a cycle goes, step count by step count, beside the plain step it has to beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.phases import NAMES, parts_of, with_rest
from toolkit.report.page.svg import Axes, box, hover, legend, legend_rows, line, picture, text, ticks, x_axis
from toolkit.report.tables import counted, number
from toolkit.schema.inspection import Configuration, RunReport
from toolkit.units import ms_from_us

Measured = tuple[RunReport, Configuration]
_WIDTH, _LEFT, _ROW = 760, 96, 34
_MOST_ROWS = 10
_PIECES = (*NAMES, "wire", "wait", "whole")
_WORDS = {**NAMES, "wire": "wire", "wait": "wait for other ranks", "whole": "not split into phases"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    cell: Configuration
    cycle: float
    pieces: dict[str, float]


def time_figure(key: str, measured: Sequence[Measured]) -> Figure | None:
    """Return the cycles of the batch that most step counts were run at; None below two of them."""
    rows = _rows(measured)
    if len(rows) < 2:
        return None
    plain = next((row.cycle for row in rows if row.cell.num_steps == 0), None)
    entries = [
        (f"p-{piece}" if piece not in ("wire", "wait") else piece, _WORDS[piece])
        for piece in _PIECES
        if any(row.pieces.get(piece) for row in rows)
    ]
    top = 14 + 18 * legend_rows(entries, _WIDTH - 20)
    longest = max(max(row.cycle, sum(row.pieces.values())) for row in rows)
    axes = Axes(
        left=_LEFT, right=_WIDTH - 178, top=top, bottom=top + _ROW * len(rows), x_to=ms_from_us(longest)
    )
    drawn = [legend(entries, 10, 18, _WIDTH - 20), x_axis(axes, ticks(0, axes.x_to, 6), "ms a cycle")]
    drawn += [_bar(axes, top + place * _ROW, row, plain) for place, row in enumerate(rows)]
    if plain is not None:
        at = axes.x(ms_from_us(plain))
        drawn.append(line(at, axes.top - 4, at, axes.bottom, "mark"))
    batch = rows[0].cell.batch_size
    return Figure(
        key=key,
        title="Where the time goes against plain decoding",
        caption=_caption(rows, plain),
        drawing=picture(
            _WIDTH,
            axes.bottom + 44,
            f"Time of a cycle by step count at batch {batch}, split by phase",
            *drawn,
        ),
        numbers=_numbers(rows, plain),
    )


def _rows(measured: Sequence[Measured]) -> list[_Row]:
    """Return one row a step count, at the batch with most step counts, each of its best known run."""
    known = [(run, cell) for run, cell in measured if cell.cycle_us and cell.num_steps is not None]
    steps_at: Counter[int | None] = Counter()
    for batch, _ in {(cell.batch_size, cell.num_steps) for _, cell in known}:
        steps_at[batch] += 1
    if not steps_at:
        return []
    chosen = max(steps_at, key=lambda batch: (steps_at[batch], -(batch or 0)))
    best: dict[int, Measured] = {}
    for run, cell in sorted((one for one in known if one[1].batch_size == chosen), key=_worth, reverse=True):
        best.setdefault(cell.num_steps or 0, (run, cell))
    return [_row(*best[steps]) for steps in sorted(best)][:_MOST_ROWS]


def _worth(one: Measured) -> tuple[float, ...]:
    """Return what makes one run of a setting better known than another: phases, short context, cycles."""
    run, cell = one
    parts = [part for rank in cell.ranks for part in parts_of(rank, run.engine)]
    usual = run.overlap_schedule is not False and not run.with_stack
    context = cell.context_tokens or 0
    return (bool(parts), usual, not any(part.by_stage for part in parts), -context, cell.cycles)


def _row(run: RunReport, cell: Configuration) -> _Row:
    """Return the phases of the rank that waits least, wire and wait as pieces of their own."""
    assert cell.cycle_us is not None
    ranks = [parts for rank in cell.ranks if (parts := parts_of(rank, run.engine))]
    if not ranks:
        return _Row(cell=cell, cycle=cell.cycle_us.median, pieces={"whole": cell.cycle_us.median})
    parts = with_rest(min(ranks, key=lambda parts: sum(part.wait for part in parts)), cell.cycle_us.median)
    pieces = {part.phase: part.width - part.wire - part.wait for part in parts}
    pieces |= {"wire": sum(part.wire for part in parts), "wait": sum(part.wait for part in parts)}
    return _Row(cell=cell, cycle=cell.cycle_us.median, pieces=pieces)


def _bar(axes: Axes, y: float, row: _Row, plain: float | None) -> Markup:
    steps = row.cell.num_steps
    drawn = [text(axes.left - 8, y + 20, "plain" if steps == 0 else counted(steps, "step"), "tick", "end")]
    at = 0.0
    for piece in _PIECES:
        us = row.pieces.get(piece, 0.0)
        if us > 0:
            left, right = axes.x(ms_from_us(at)), axes.x(ms_from_us(at + us))
            class_ = piece if piece in ("wire", "wait") else f"p-{piece}"
            drawn.append(
                box(left, y + 5, right - left, 22, class_, hover(f"{_WORDS[piece]} {ms_from_us(us):.3f} ms"))
            )
            at += us
    said = f"{ms_from_us(row.cycle):.2f} ms"
    if plain and steps:
        said += f" = {row.cycle / plain:.2f} × plain"
    drawn.append(text(axes.right + 8, y + 20, said, "value"))
    return Markup("").join(drawn)


def _caption(rows: Sequence[_Row], plain: float | None) -> str:
    batch = rows[0].cell.batch_size
    said = f"Measured at batch {batch}, on the rank that waits least; numbers are median cycles."
    if plain is None:
        return f"{said} Plain decoding was not measured, so nothing says what these have to beat."
    longest = max(row.cycle for row in rows) / plain
    return (
        f"{said} The dashed line is one plain step: a cycle of {longest:.2f} × plain pays above "
        f"{longest:.2f} tokens a cycle."
    )


def _numbers(rows: Sequence[_Row], plain: float | None) -> Numbers:
    pieces = [piece for piece in _PIECES if any(row.pieces.get(piece) for row in rows)]
    made = tuple(
        (
            "plain" if row.cell.num_steps == 0 else str(row.cell.num_steps),
            *(number(us) if (us := row.pieces.get(piece)) is not None else "-" for piece in pieces),
            number(row.cycle),
            number(row.cycle / plain if plain else None, 2),
        )
        for row in rows
    )
    return Numbers(
        columns=("steps", *(f"{_WORDS[piece]} us" for piece in pieces), "cycle us", "× plain"), rows=made
    )
