"""A measured cycle drawn to scale, a row for each rank: phases, draft forwards, wire and wait inside."""

from __future__ import annotations

from markupsafe import Markup

from toolkit.report.page.figure import Figure, Numbers
from toolkit.report.page.phases import NAMES, Part, parts_of, title_of, with_rest
from toolkit.report.page.svg import Axes, box, hover, legend, legend_rows, line, picture, text, ticks, x_axis
from toolkit.report.tables import number
from toolkit.schema.inspection import Configuration, RunReport
from toolkit.units import ms_from_us

_WIDTH, _LEFT, _ROW = 760, 64, 44
_MOST_RANKS = 8
_LETTER = 7.0


def cycle_figure(key: str, run: RunReport, cell: Configuration) -> Figure | None:
    """Return the cycle of one configuration, None where not even its length is known."""
    cycle = cell.cycle_us.median if cell.cycle_us else None
    rows = [(f"rank {rank.tp_rank}", with_rest(parts_of(rank, run.engine), cycle)) for rank in cell.ranks]
    rows = [(name, parts) for name, parts in rows if parts][:_MOST_RANKS]
    if cycle is None and not rows:
        return None
    whole = not rows
    if whole and cycle is not None:
        rows = [("cycle", (Part(phase="whole", width=cycle),))]
    longest = max([cycle or 0.0, *(sum(part.width for part in parts) for _, parts in rows)])
    entries = _entries(rows)
    top = 14 + 18 * legend_rows(entries, _WIDTH - 20)
    axes = Axes(
        left=_LEFT, right=_WIDTH - 16, top=top, bottom=top + _ROW * len(rows), x_to=ms_from_us(longest)
    )
    drawn = [
        legend(entries, 10, 18, _WIDTH - 20),
        x_axis(axes, ticks(0, axes.x_to, 8), "ms from the start of the cycle"),
    ]
    for place, (name, parts) in enumerate(rows):
        drawn.append(_rank(axes, top + place * _ROW, name, parts, cell))
    if cycle is not None and not whole:
        at = axes.x(ms_from_us(cycle))
        drawn.append(line(at, axes.top - 4, at, axes.bottom, "mark"))
    label = f"Cycle of {title_of(cell)}, {len(rows)} {'rank' if len(rows) == 1 else 'ranks'}, drawn to scale"
    return Figure(
        key=key,
        title=f"{title_of(cell)[:1].upper()}{title_of(cell)[1:]}: one cycle to scale",
        caption=_caption(run, cell, rows, len(cell.ranks)),
        drawing=picture(_WIDTH, axes.bottom + 44, label, *drawn),
        numbers=_numbers(rows, cell),
    )


def _entries(rows: list[tuple[str, tuple[Part, ...]]]) -> list[tuple[str, str]]:
    parts = [part for _, found in rows for part in found]
    named = dict.fromkeys(part.phase for part in parts)
    entries = [
        (f"p-{phase}", NAMES.get(phase, "not split into phases"))
        for phase in (*NAMES, "whole")
        if phase in named
    ]
    if any(part.wire for part in parts):
        entries.append(("wire", "wire: collectives moving data"))
    if any(part.wait for part in parts):
        entries.append(("wait", "wait for other ranks"))
    return entries


def _rank(axes: Axes, y: float, name: str, parts: tuple[Part, ...], cell: Configuration) -> Markup:
    """Return the row of one rank; wire and wait are a strip along the bottom of their phase."""
    drawn = [text(axes.left - 8, y + 21, name, "tick", "end")]
    at = 0.0
    for part in parts:
        left, right = axes.x(ms_from_us(at)), axes.x(ms_from_us(at + part.width))
        said = f"{NAMES.get(part.phase, 'cycle')} {ms_from_us(part.width):.3f} ms"
        class_ = f"p-{part.phase}{' stage' if part.by_stage else ''}"
        drawn.append(box(left, y + 4, right - left, 32, class_, hover(f"{name}: {said}")))
        if part.phase == "draft":
            drawn.append(_draft_forwards(axes, y, at, part, cell))
        scale = (right - left) / part.width if part.width else 0.0
        if part.wire:
            drawn.append(box(left, y + 26, part.wire * scale, 10, "wire", hover(f"wire {part.wire:,.0f} us")))
        if part.wait:
            start = left + part.wire * scale
            drawn.append(
                box(start, y + 26, part.wait * scale, 10, "wait", hover(f"wait {part.wait:,.0f} us"))
            )
        short = NAMES.get(part.phase, "cycle")
        for shown in (f"{short} {ms_from_us(part.width):.2f}", short):
            if right - left > _LETTER * len(shown) + 6:
                drawn.append(
                    text(
                        (left + right) / 2,
                        y + 23 if not part.wire and not part.wait else y + 21,
                        shown,
                        f"on-{part.phase}",
                        "middle",
                    )
                )
                break
        at += part.width
    return Markup("").join(drawn)


def _draft_forwards(axes: Axes, y: float, start: float, part: Part, cell: Configuration) -> Markup:
    """Return the borders between the draft forwards of the pass, by their medians."""
    times = [step.median_us for step in cell.draft_steps if not step.is_extend]
    if len(times) < 2 or sum(times) > part.width * 1.2:
        return Markup("")
    scale = min(1.0, part.width / sum(times))
    at, drawn = start, []
    for time in times[:-1]:
        at += time * scale
        x = axes.x(ms_from_us(at))
        drawn.append(line(x, y + 4, x, y + 11, "split"))
    return Markup("").join(drawn)


def _caption(
    run: RunReport, cell: Configuration, rows: list[tuple[str, tuple[Part, ...]]], ranks: int
) -> str:
    parts = [part for _, found in rows for part in found]
    said = f"Run {run.run} ({_read(cell)}).{_length(cell)}"
    if not any(part.phase == "whole" for part in parts):
        said += " Widths are medians of each phase; the upright dashed line is the median cycle"
        said += f"{_longer(rows, cell)}."
    else:
        said += " Nothing in this run splits the cycle: a kernel trace or spans would."
    if any(part.wire or part.wait for part in parts):
        said += " Strips add up a phase's wire and wait; they do not say when in the phase it was."
    if any(part.by_stage for part in parts):
        said += (
            " Dashed phases are event pairs around the engine's calls: copies and launch gaps are in them."
        )
    if ranks > len(rows) and ranks > _MOST_RANKS:
        said += f" {ranks - len(rows)} more ranks are in `toolkit inspect`."
    return said


def _read(cell: Configuration) -> str:
    """Return the sources of a configuration and how many cycles they hold, where they say that."""
    cycles = f"{cell.cycles:,} {'cycle' if cell.cycles == 1 else 'cycles'}" if cell.cycles else ""
    return "; ".join(part for part in (", ".join(cell.sources), cycles) if part)


def _length(cell: Configuration) -> str:
    """Return the cycle in words, and what sets it where that is known."""
    if cell.cycle_us is None:
        return ""
    bound = {"host": "; the host sets it", "gpu": "; the GPU sets it"}.get(cell.bound, "")
    return f" Median cycle {ms_from_us(cell.cycle_us.median):.2f} ms from {cell.cycle_source}{bound}."


def _longer(rows: list[tuple[str, tuple[Part, ...]]], cell: Configuration) -> str:
    """Say why bars end beyond the dashed line, where one does."""
    cycle = cell.cycle_us.median if cell.cycle_us else None
    longest = max((sum(part.width for part in parts) for _, parts in rows), default=0.0)
    if cycle is None or longest < 1.02 * cycle:
        return ""
    return ": cycles whose phases were timed were longer than most"


def _numbers(rows: list[tuple[str, tuple[Part, ...]]], cell: Configuration) -> Numbers:
    made = [
        (name, NAMES.get(part.phase, "cycle"), number(part.width), number(part.wire), number(part.wait))
        for name, parts in rows
        for part in parts
    ]
    made += [
        ("least waiting", f"draft forward {step.forward}", number(step.median_us), "-", "-")
        for step in cell.draft_steps
    ]
    return Numbers(columns=("rank", "phase", "us", "wire us", "wait us"), rows=tuple(made))
