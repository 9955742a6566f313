"""What `toolkit inspect` prints for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from toolkit.report.cycle_bar import cycle_bar
from toolkit.report.tables import counted, marked, number, rendered, share, table, whole
from toolkit.schema.calibration import Calibration
from toolkit.schema.inspection import AcceptanceAudit, Configuration, Inspection, PhaseTime, RunReport, Spread

_ORDER = ("draft", "verify", "decode", "sample", "draft_extend", "gap")
_MOST_TABLE_ROWS = 40


def inspection_text(inspection: Inspection) -> str:
    """Return all runs as text: one head line, then a block for each configuration, then health.

    Several runs end with a line that counts them and those that failed a check.
    """
    return rendered(_parts(inspection.runs))


def _parts(runs: Sequence[RunReport]) -> Iterator[RenderableType]:
    for place, run in enumerate(runs):
        if place:
            yield Text("")
        yield from _run(run)
    if len(runs) > 1:
        failed = [run.run for run in runs if any(check.ok is False for check in run.health)]
        yield Text("")
        yield Text(f"{len(runs)} runs, {len(failed) or 'none'} with a failed check (marked !)", style="bold")


def _run(run: RunReport) -> Iterator[RenderableType]:
    yield Text(run.run, style="bold")
    if run.calibration is not None:
        yield Text(_calibration(run.calibration))
        if not run.configurations:
            return
    yield Text(_head(run))
    tabled = [cell for cell in run.configurations if cell.row is not None]
    for place, cell in enumerate(cell for cell in run.configurations if cell.row is None):
        if place:
            yield Text("")
        yield from _configuration(cell, run)
    if tabled:
        yield _rows(tabled)
    for audit in run.acceptance_audit:
        yield Text(_audit(audit), style="yellow" if audit.verdict == "fault" else "")
    failed = [check for check in run.health if check.ok is False]
    passed = sum(check.ok is True for check in run.health)
    yield Text(f"health: {passed} of {len(run.health)} checks passed")
    for check in failed:
        yield marked("  !", f"{check.check}: {check.detail}", style="yellow")


def _head(run: RunReport) -> str:
    server = " ".join(part for part in (run.engine, run.engine_version) if part) or "engine not known"
    parts = [server, run.model or "model not known", run.gpu or "GPU not known"]
    if run.tp_size is not None:
        parts.append(f"TP {run.tp_size}" + _draft_tp(run))
    if run.acceptance_kind:
        parts.append(f"{run.acceptance_kind} acceptance")
    return "; ".join(parts)


def _calibration(made: Calibration) -> str:
    """Return what a calibration holds, in two lines."""
    sizes = ", ".join(str(size) for size in made.sizes) or "none"
    algorithms = dict.fromkeys(one.algorithm for one in made.collectives)
    kinds = dict.fromkeys(one.kind.replace("_", " ") for one in made.forwards)
    model = f" of {made.target.name}" if made.target else ""
    host = f"{made.gpu_count} x {made.gpu}" if made.gpu_count else made.gpu or made.device
    forwards = f"{counted(len(made.forwards), 'forward')}{model}"
    collectives = counted(len(made.collectives), "time") + " of collectives"
    return (
        f"calibration of a host: {host}; TP sizes {sizes}\n"
        f"{forwards}{_in_brackets(kinds)}; {collectives}{_in_brackets(algorithms)}"
    )


def _in_brackets(names: Iterable[str]) -> str:
    joined = ", ".join(names)
    return f" ({joined})" if joined else ""


def _audit(audit: AcceptanceAudit) -> str:
    batch = "" if audit.batch_size is None else f", batch {audit.batch_size}"
    return (
        f"acceptance: {audit.verdict} at {counted(audit.num_steps, 'step')}{batch}: {audit.measured:.2f} "
        f"tokens a cycle, {audit.expected_lo:.2f} to {audit.expected_hi:.2f} expected; {audit.why}"
    )


def _draft_tp(run: RunReport) -> str:
    if run.draft_tp is None:
        return ""
    seen = " by its collectives" if run.draft_tp_source == "collectives" else " as asked for"
    return f", draft TP {run.draft_tp}{seen if run.tp_size and run.tp_size > 1 else ''}"


def _configuration(cell: Configuration, run: RunReport) -> Iterator[RenderableType]:
    yield Text(_title(cell))
    yield Text(_cycle(cell))
    if cell.cycle_us is None and any(other.cycle_us for other in run.configurations):
        yield Text("(too few cycles in a row; what is known of its phases is in --json)")
    elif any(rank.phases for rank in cell.ranks):
        yield _phases(cell)
        yield from _bar(cell)
    if cell.draft_steps:
        steps = "  ".join(f"{step.median_us:,.1f}" for step in cell.draft_steps)
        yield Text(
            f"draft forwards, us (median, rank that waits least; from {cell.draft_steps_source}): {steps}"
        )
    if cell.collectives:
        yield Text("collectives a cycle: wire of one, wait of all, longest wait at the first")
        yield _collectives(cell)
    yield Text(_acceptance(cell, run))
    yield from (Text(f"{note[:1].upper()}{note[1:]}.") for note in cell.notes)


def _title(cell: Configuration) -> str:
    steps = "plain decoding" if cell.num_steps == 0 else counted(cell.num_steps, "step")
    padded = (
        "" if cell.padded_batch_size in (None, cell.batch_size) else f" (padded to {cell.padded_batch_size})"
    )
    context = "" if cell.context_tokens is None else f", context {counted(cell.context_tokens, 'token')}"
    width = "" if cell.num_steps == 0 else f", {counted(cell.num_draft_tokens, 'draft token')}"
    graphs = ", no CUDA graphs" if cell.graph is False else ""
    batch = f"batch {whole(cell.batch_size)}{padded}"
    return f"{steps}{width}, {batch}{context}{graphs}; from {', '.join(cell.sources)}"


def _cycle(cell: Configuration) -> str:
    cycle = cell.cycle_us
    if cycle is None:
        return "cycle: not known"
    text = (
        f"median cycle {cycle.median / 1000:,.2f} ms (p10 {cycle.p10 / 1000:,.2f}, "
        f"p90 {cycle.p90 / 1000:,.2f}; {cycle.count:,} from {cell.cycle_source}); bound: {cell.bound}"
    )
    if cell.trace_inflation:
        text += f"; the traced cycle was {cell.trace_inflation:.2f} times as long"
    return text


def _phases(cell: Configuration) -> RenderableType:
    rows = []
    for rank in cell.ranks:
        for name in _ORDER:
            time = rank.phases.get(name)
            if time:
                rows.append((str(rank.tp_rank), name, *_times(time)))
        if rank.gpu_busy_fraction is not None:
            rows.append((str(rank.tp_rank), "GPU busy", "", "", share(rank.gpu_busy_fraction), "", "", ""))
    return table(("rank", "<phase", "graph us", "p10-p90", "busy us", "wait us", "stage us", "kernels"), rows)


def _bar(cell: Configuration) -> Iterator[RenderableType]:
    lines = cycle_bar(cell)
    if lines:
        yield from map(Text, [*lines, ""])


def _times(time: PhaseTime) -> tuple[str, ...]:
    return (
        number(time.graph_us.median if time.graph_us else None),
        _range(time.graph_us),
        number(time.busy_us),
        number(time.wait_us),
        number(time.stage_us.median if time.stage_us else None),
        whole(time.kernels),
    )


def _range(value: Spread | None) -> str:
    return "-" if value is None else f"{value.p10:,.0f}-{value.p90:,.0f}"


def _collectives(cell: Configuration) -> RenderableType:
    rows = [
        (
            report.phase,
            report.op,
            "from spans" if report.source == "spans" else report.algorithm or "-",
            whole(report.group_size),
            number(report.per_cycle, 0),
            number(report.wire_us),
            number(report.wait_us_per_cycle),
            number(report.first_wait_max_us),
        )
        for report in cell.collectives
    ]
    columns = ("<phase", "<collective", "<algorithm", "ranks", "count", "wire us", "wait us", "1st us")
    return table(columns, rows)


def _acceptance(cell: Configuration, run: RunReport) -> str:
    parts = []
    acceptance = cell.acceptance
    if acceptance and acceptance.accept_length is not None:
        error = "" if acceptance.se is None else f" ± {acceptance.se:.3f} (SE)"
        parts.append(f"accept length {acceptance.accept_length:.2f}{error}")
        if acceptance.accept_by_position:
            parts.append("by position " + " ".join(f"{kept:.2f}" for kept in acceptance.accept_by_position))
        if acceptance.rate is not None and acceptance.rate_kind:
            parts.append(f"the log's rate {acceptance.rate:.2f} is {acceptance.rate_kind}")
        if run.acceptance_kind == "simulated":
            parts.append("simulated")
    speed = cell.throughput_tok_s
    if speed.measured:
        parts.append(f"{speed.measured:,.1f} tok/s measured ({speed.measured_by})")
    if speed.from_cycle:
        parts.append(f"{speed.from_cycle:,.1f} tok/s from the mean cycle")
    return "; ".join(parts) or "acceptance and throughput not known"


def _rows(cells: list[Configuration]) -> RenderableType:
    rows = [
        (
            whole(cell.row),
            whole(cell.num_steps),
            whole(cell.num_draft_tokens),
            whole(cell.topk),
            whole(cell.batch_size),
            whole(cell.context_tokens),
            number(cell.acceptance.accept_length if cell.acceptance else None, 2),
            number(cell.cycle_us.median / 1000 if cell.cycle_us else None, 2),
            number(cell.throughput_tok_s.measured),
        )
        for cell in cells[:_MOST_TABLE_ROWS]
    ]
    more = len(cells) - len(rows)
    title = "rows of the table" + (f" ({more} more not shown)" if more > 0 else "")
    return table(
        ("line", "steps", "D", "topk", "batch", "context", "length", "cycle ms", "tok/s"), rows, title
    )
