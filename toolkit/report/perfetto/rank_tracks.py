"""What is drawn of one rank: cycles, phases, draft forwards, collectives with wire and wait, every kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from toolkit.analysis.trace.cycles import TracedCycle
from toolkit.analysis.trace.draft_steps import step_spans_ns
from toolkit.analysis.trace.trace_view import TraceView
from toolkit.analysis.trace.wire_and_wait import CollectiveKind, SplitCollectives
from toolkit.report.perfetto.tracks import APART_NS, Int64s, Track, track, us_text

# Of each phase the collectives, and whether wire and wait may be told apart
Splits = dict[str, tuple[list[SplitCollectives], bool]]
_LEAST_WAIT_NS = 10  # shorter ones are no waits


def rank_tracks(view: TraceView, position: int, splits: Splits, forwards: int | None) -> Iterator[Track]:
    """Yield the tracks of the rank at one position, on the clock of the first rank.

    `splits` are the collectives of each phase; `forwards` the number of
    forwards in a draft pass, None where the pass itself tells.
    """
    clock = view.clocks[position]
    for one in _own_clock(view, position, splits, forwards):
        start = clock.on_reference(one.start_ns) if clock else one.start_ns
        yield Track(one.title, one.names, one.name, start, one.duration_ns, one.args)


def _own_clock(view: TraceView, position: int, splits: Splits, forwards: int | None) -> Iterator[Track]:
    cycles = view.ranks[position].cycles
    if cycles:
        yield track(
            "cycles",
            [(_cycle_name(c.batch_size), c.start_ns, c.start_ns + (c.period_ns or 0)) for c in cycles],
        )
        phases = [(phase.name, phase.start_ns, phase.end_ns) for c in cycles for phase in c.phases.values()]
        yield track("phases", phases)
    drafts = list(_draft_forwards(view, position, forwards))
    if drafts:
        yield track("draft forwards", drafts)
    yield from _collectives(view, position, splits)
    yield from _kernels(view, position)


def _cycle_name(batch: int | None) -> str:
    return "cycle" if batch is None else f"cycle, batch {batch}"


def _end_ns(cycle: TracedCycle) -> int:
    """Return where a cycle ends: at the next one, else with its last phase."""
    if cycle.period_ns is not None:
        return cycle.start_ns + cycle.period_ns - APART_NS
    return max(phase.end_ns for phase in cycle.phases.values())


def _draft_forwards(view: TraceView, position: int, count: int | None) -> Iterator[tuple[str, int, int]]:
    for cycle in view.ranks[position].cycles:
        if "draft" in cycle.phases:
            spans = step_spans_ns(cycle.phases["draft"], view.traces[position], count) or []
            for number, (start, end) in enumerate(spans, start=1):
                yield f"draft forward {number}", start, end


def _collectives(view: TraceView, position: int, splits: Splits) -> Iterator[Track]:
    """Yield whole collectives, and of those that were matched the wait and the wire after it."""
    whole: list[tuple[str, int, int]] = []
    args: list[str] = []
    waits: list[tuple[str, int, int]] = []
    wires: list[tuple[str, int, int]] = []
    kernels = view.traces[position].kernels
    row = view.compared.index(position) if position in view.compared else None
    for phase, (parts, apart) in splits.items() if row is not None else ():
        for part in parts:
            for kernel, kind, wire_ns in _instances(part, row or 0, apart):
                start = int(kernels.start_ns[kernel])
                end = start + int(kernels.duration_ns[kernel])
                turn = start if wire_ns is None else max(start, end - wire_ns)
                whole.append((f"{kind.op} {kind.algorithm}", start, end))
                split = (
                    ""
                    if wire_ns is None
                    else f',"wait_us":{us_text(turn - start)},"wire_us":{us_text(end - turn)}'
                )
                args.append(f'{{"phase":"{phase}"{split}}}')
                if wire_ns is not None:
                    wires.append((f"wire {kind.op}", turn, end))
                    if turn - start >= _LEAST_WAIT_NS:
                        waits.append((f"wait {kind.op}", start, turn))
    if whole:
        yield track("collectives", whole, args)
    if waits:
        yield track("wait for other ranks", waits)
    if wires:
        yield track("wire", wires)


def _instances(
    part: SplitCollectives, row: int, apart: bool
) -> Iterator[tuple[int, CollectiveKind, int | None]]:
    """Yield kernel, kind and wire time (None if not known) of each collective that a rank recorded."""
    for cycle, placed in enumerate(part.found.placed[row]):
        slots = placed.graph.slot[placed.places]
        mine = slots >= 0
        for kernel, slot in zip(placed.kernels[mine].tolist(), slots[mine].tolist(), strict=True):
            wire = float(part.wire[row, cycle, slot])
            yield kernel, part.kinds[slot], round(wire) if apart and np.isfinite(wire) else None


def _kernels(view: TraceView, position: int) -> Iterator[Track]:
    """Yield a track for each stream, with every kernel and copy on it."""
    trace = view.traces[position]
    kernels = trace.kernels
    for stream in _streams(kernels.stream):
        mine = np.flatnonzero(kernels.stream == stream)
        args = [f'{{"correlation":{number}}}' for number in kernels.correlation[mine].tolist()]
        names: Int64s = kernels.name[mine].astype(np.int64)
        title = f"kernels of stream {stream}"
        yield Track(title, trace.names, names, kernels.start_ns[mine], kernels.duration_ns[mine], args)


def _streams(streams: Int64s) -> Sequence[int]:
    """Return the streams, the busiest first."""
    found, counts = np.unique(streams, return_counts=True)
    return [int(found[at]) for at in np.argsort(-counts, kind="stable")]
