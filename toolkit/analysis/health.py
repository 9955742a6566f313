"""Checks that say whether a run's numbers can be trusted, before anybody reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from toolkit.analysis.acceptance_notes import dominance_text
from toolkit.analysis.length_health import accept_lengths
from toolkit.analysis.rank_health import collectives_matched, one_clock
from toolkit.analysis.row_contradictions import contradiction_checks
from toolkit.analysis.table_health import table_checks
from toolkit.analysis.trace.trace_view import TraceView
from toolkit.schema.inspection import Configuration, HealthCheck, RankReport
from toolkit.schema.recording import Recording

_CLOSE = 0.10  # throughput implied by cycle and acceptance against the one measured
_MOST_LISTED = 16
_WIDEST = 4096  # ranks; a file that names more is damaged


def health_checks(
    recording: Recording, view: TraceView | None, cells: Sequence[Configuration]
) -> tuple[HealthCheck, ...]:
    """Return every check that applies to the run, failed ones included."""
    checks: list[HealthCheck | None] = []
    if recording.traces:
        checks += [
            _kernels(recording),
            _kernels_lost(recording, view),
            _launches(recording, view),
            _ranks(recording),
            _stacks(recording),
            _pattern(view),
            _draft_steps(cells),
            one_clock(view),
            collectives_matched(cells),
        ]
    checks += [
        accept_lengths(recording, cells),
        _no_request_dominates(cells),
        _throughput(cells),
        *table_checks(recording.measurements),
        *contradiction_checks(recording.measurements),
        _spans_dropped(recording),
        _undamaged(recording),
    ]
    return tuple(check for check in checks if check)


def _kernels(recording: Recording) -> HealthCheck:
    counts = {trace.tp_rank: len(trace.kernels) for trace in recording.traces}
    empty = [rank for rank, count in sorted(counts.items()) if not count]
    detail = f"{sum(counts.values())} kernels and copies on {len(counts)} ranks"
    if empty:
        detail = (
            f"no kernel on rank {_listed(empty)}: the profiler ran without CUDA activity or lost its buffers"
        )
    return HealthCheck(check="kernels captured", ok=not empty, detail=detail)


def _kernels_lost(recording: Recording, view: TraceView | None) -> HealthCheck | None:
    """Compare replays of one graph: each holds the same kernels unless the profiler lost some."""
    sizes: dict[tuple[int, int | None, str], list[int]] = defaultdict(list)
    for rank in view.ranks if view else ():
        for cycle in rank.cycles:
            for name, phase in cycle.phases.items():
                if phase.graph and len(phase.forwards) == 1:
                    sizes[rank.tp_rank, cycle.batch_size, name].append(len(phase.kernels))
    if not sizes:
        return None
    expected = sum(max(counts) * len(counts) for counts in sizes.values())
    lost = expected - sum(map(sum, sizes.values()))
    cause = "the profiler lost records"
    if any(trace.damage for trace in recording.traces):
        cause = "the profiler lost records, or the file is damaged (see files whole)"
    detail = f"all replays of a graph hold the same {expected} kernels"
    if lost:
        detail = (
            f"{lost} of {expected} kernels ({lost / expected:.1%}) are missing from replays of graphs: "
            f"{cause}, so counts are the fullest replay's and some times are short"
        )
    return HealthCheck(check="no kernel lost", ok=not lost, detail=detail)


def _launches(recording: Recording, view: TraceView | None) -> HealthCheck | None:
    if view is None:
        return None
    lost = sum(rank.empty_graph_launches for rank in view.ranks)
    cycles = sum(len(rank.cycles) for rank in view.ranks)
    graphs = sum(rank.graph_launches for rank in view.ranks)
    detail = f"{graphs} graph launches in {cycles} cycles over {len(view.ranks)} ranks"
    if lost:
        detail += f"; {lost} more launches left no kernel in the trace"
    return HealthCheck(check="launches against cycles", ok=not lost and cycles > 0, detail=detail)


def _ranks(recording: Recording) -> HealthCheck:
    present = sorted(trace.tp_rank for trace in recording.traces)
    expected = recording.info.tp_size or max((trace.world_size or 1 for trace in recording.traces), default=1)
    missing = [rank for rank in range(min(expected, _WIDEST)) if rank not in present]
    if missing:
        follows = (
            "wire time is then an upper bound, because the missing rank may have been the last to arrive"
            if len(present) > 1
            else "wire and wait of collectives need the traces of two ranks or more"
        )
        detail = f"rank {_listed(missing)} of {expected} is missing: {follows}"
        return HealthCheck(check="ranks present", ok=False, detail=detail)
    return HealthCheck(check="ranks present", ok=True, detail=f"{len(present)} of {expected}")


def _stacks(recording: Recording) -> HealthCheck:
    stacked = bool(recording.info.with_stack) or any(trace.with_stack for trace in recording.traces)
    detail = "no stacks recorded"
    if stacked:
        detail = (
            "Python stacks were on in the trace: times between graphs and waits after host gaps are "
            "inflated, times inside graphs are not"
        )
    return HealthCheck(check="trace without Python stacks", ok=not stacked, detail=detail)


def _pattern(view: TraceView | None) -> HealthCheck | None:
    if view is None:
        return None
    irregular = view.irregular
    return HealthCheck(
        check="cycles repeat", ok=irregular is None, detail=irregular or "every phase has its usual kernels"
    )


def _draft_steps(cells: Sequence[Configuration]) -> HealthCheck | None:
    traced = [cell for cell in cells if any(_kernels_of(rank, "draft") for rank in cell.ranks)]
    if not traced:
        return None
    split = all(any(not step.is_extend for step in cell.draft_steps) for cell in traced)
    detail = "draft forwards x their period cover the draft pass"
    if not split:
        detail = "no kernel sequence repeats over the draft pass, so single draft forwards are not given"
    return HealthCheck(check="draft forwards cover the draft pass", ok=split, detail=detail)


def _kernels_of(rank: RankReport, phase: str) -> int | None:
    return rank.phases[phase].kernels if phase in rank.phases else None


def _no_request_dominates(cells: Sequence[Configuration]) -> HealthCheck | None:
    """Return the failed check of requests that an accept length is mostly of."""
    said = [text for cell in cells if cell.acceptance and (text := dominance_text(cell.acceptance))]
    if not said:
        return None
    return HealthCheck(check="no request dominates", ok=False, detail="; ".join(said[:_MOST_LISTED]))


def _throughput(cells: Sequence[Configuration]) -> HealthCheck | None:
    compared = [
        (cell, cell.throughput_tok_s.from_cycle / cell.throughput_tok_s.measured - 1)
        for cell in cells
        if cell.throughput_tok_s.measured
        and cell.throughput_tok_s.from_cycle
        and cell.cycle_source != cell.throughput_tok_s.measured_by
    ]
    if not compared:
        return None
    cell, off = max(compared, key=lambda pair: abs(pair[1]))
    speed = cell.throughput_tok_s
    detail = (
        f"{speed.from_cycle:.1f} tok/s from cycle and acceptance, {speed.measured:.1f} "
        f"measured by the {speed.measured_by} ({round(off, 3) + 0.0:+.1%})"
    )
    ok = abs(off) <= _CLOSE
    if not ok and speed.measured_by == "client":
        detail += (
            "; a client's seconds hold the prompts' prefill: drive longer outputs, or add the server's log"
        )
    elif not ok:
        detail += "; the sources are of different loads or windows: keep those of one"
    return HealthCheck(check="throughput agrees", ok=ok, detail=detail)


def _spans_dropped(recording: Recording) -> HealthCheck | None:
    if not recording.spans:
        return None
    dropped = sum(rank.dropped for rank in recording.spans)
    return HealthCheck(
        check="no span dropped", ok=not dropped, detail=f"{dropped} cycles dropped by the probe"
    )


def _undamaged(recording: Recording) -> HealthCheck:
    damage = [note for trace in recording.traces for note in trace.damage]
    damage += [note for rank in recording.spans for note in rank.damage]
    damage += list(recording.log.damage) if recording.log else []
    return HealthCheck(
        check="files whole", ok=not damage, detail="; ".join(damage) or "nothing cut or unreadable"
    )


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_LISTED]))
    return shown if len(numbers) <= _MOST_LISTED else f"{shown} and {len(numbers) - _MOST_LISTED} more"
