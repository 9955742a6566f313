"""Cycles of one rank from its kernels: what is launched, in which order, tells the phases.

A cycle is anchored at the target's forward. After it come sampling, the draft extend and the draft
pass of the next cycle; which of them exist depends on steps, engine and attention backend, so they
are recognised one by one and nothing is counted on to be three launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.analysis.trace.forwards import Forward, Marker, forwards_of, joined
from toolkit.analysis.trace.launches import Launch, graph_launches_without_kernels, launches_of
from toolkit.analysis.trace.releasing import give_back
from toolkit.analysis.trace.targets import is_speculative, target_positions
from toolkit.schema.trace import Int32s, RankTrace

_TOLERANCE = 0.05  # kernels of a phase that profilers lose, or that eager code adds now and then
_REPEATING = 0.8  # share of the occurrences of a phase that must look alike


@dataclass(frozen=True, slots=True)
class Phase:
    """One occurrence of a phase: its kernels by start, and its forwards (one, or one a draft step)."""

    name: str
    kernels: Int32s
    start_ns: int
    end_ns: int
    graph: bool
    forwards: tuple[Forward, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedCycle:
    """One cycle of one rank. `draft` came before the target's forward, the others after it.

    `period_ns` runs to the next target forward; None for the last cycle and where prefill or other
    work came between (`disturbed`).
    """

    batch_size: int | None
    tokens: int | None
    phases: dict[str, Phase]
    start_ns: int
    period_ns: int | None
    disturbed: bool


@dataclass(frozen=True, slots=True)
class RankCycles:
    """All cycles of one rank; `irregular` says in a sentence what does not repeat, None if all does.

    `graph_launches` left kernels in the trace, `empty_graph_launches` none.
    """

    tp_rank: int
    speculative: bool
    cycles: tuple[TracedCycle, ...]
    irregular: str | None
    graph_launches: int
    empty_graph_launches: int


def rank_cycles(trace: RankTrace) -> RankCycles:
    """Recognise the cycles in one rank's trace."""
    give_back()  # what reading the trace took
    launches = launches_of(trace)
    forwards, markers = forwards_of(launches)
    targets = target_positions(forwards, markers)
    speculative = is_speculative(forwards, markers, targets)
    cycles = [_cycle(launches, forwards, markers, targets, at, speculative) for at in range(len(targets))]
    return RankCycles(
        tp_rank=trace.tp_rank,
        speculative=speculative,
        cycles=tuple(cycles),
        irregular=_irregular(cycles),
        graph_launches=sum(launch.graph for launch in launches),
        empty_graph_launches=graph_launches_without_kernels(trace, launches),
    )


def _cycle(
    launches: Sequence[Launch],
    forwards: Sequence[Forward],
    markers: Sequence[Marker],
    targets: Sequence[int],
    at: int,
    speculative: bool,
) -> TracedCycle:
    target = forwards[targets[at]]
    before = forwards[targets[at - 1] + 1 : targets[at]] if at else forwards[: targets[at]]
    end = targets[at + 1] if at + 1 < len(targets) else len(forwards)
    after = forwards[targets[at] + 1 : end]
    phases = {"verify" if speculative else "decode": _phase("verify" if speculative else "decode", [target])}
    if speculative:
        drafts = _drafts(before, first_cycle=at == 0)
        if drafts:
            phases["draft"] = _phase("draft", drafts)
        extends = _extends(after)
        if extends:
            phases["draft_extend"] = _phase("draft_extend", extends)
        stop = forwards[end].first if end < len(forwards) else len(launches)
        sample = _sample(launches, markers, target, after[0] if after else None, stop)
        if sample:
            phases["sample"] = sample
    disturbed = any(forward.label == "prefill" for forward in after)
    following = forwards[targets[at + 1]] if at + 1 < len(targets) else None
    meaning = target.meaning
    return TracedCycle(
        batch_size=meaning.batch_size if meaning else None,
        tokens=meaning.tokens if meaning else None,
        phases=phases,
        start_ns=target.start_ns,
        period_ns=following.start_ns - target.start_ns if following and not disturbed else None,
        disturbed=disturbed,
    )


def _drafts(before: Sequence[Forward], first_cycle: bool) -> list[Forward]:
    """Return the draft pass among the forwards between two target forwards.

    By the engine's own range; without one, all but the first, which is the extend of the cycle
    before. At the start of a trace that first one may be missing, so nothing is claimed there.
    """
    named = [forward for forward in before if forward.label == "draft"]
    if named:
        return named
    if first_cycle or any(forward.label == "prefill" for forward in before):
        return []
    unnamed = [forward for forward in before if forward.label in (None, "drafting")]
    has_extend = any(forward.label == "draft_extend" for forward in before)
    return unnamed if has_extend else unnamed[1:]


def _extends(after: Sequence[Forward]) -> list[Forward]:
    """Return the draft extend: by the engine's range, else the first forward after the target's.

    A draft of several layers runs one forward for each of its steps in that range.
    """
    for at, forward in enumerate(after):
        if forward.label == "prefill":
            return []  # the draft model's own prefill follows, not this cycle's extend
        if forward.label == "draft_extend":
            return [one for one in after[at:] if one.range_id == forward.range_id]
    first = after[0] if after else None
    return [first] if first and first.label in (None, "drafting") else []


def _sample(
    launches: Sequence[Launch],
    markers: Sequence[Marker],
    target: Forward,
    following: Forward | None,
    stop: int,
) -> Phase | None:
    """Return sampling and acceptance: single kernels after the target's forward.

    They end where the engine enters its extend; without that range, at the last kernel that samples
    or accepts, and in any case before the next forward (position `stop` if there is none in the cycle).
    """
    end = following.first if following else stop
    between = range(target.last + 1, end)
    entered = next(
        (p for p in between if launches[p].meaning and launches[p].range_id != target.range_id), None
    )
    if entered is None and following and following.label in ("draft_extend", "drafting"):
        entered = following.first
    if entered is not None:
        between = range(target.last + 1, entered)
    else:
        closing = [
            m.position for m in markers if m.kind in ("accept", "sampling") and target.last < m.position < end
        ]
        between = range(target.last + 1, closing[-1] + 1 if closing else target.last + 1)
    kept = [launches[p] for p in between if launches[p].start_ns >= target.end_ns]
    if not kept:
        return None
    kernels = joined([launch.kernels for launch in kept])
    return Phase("sample", kernels, min(x.start_ns for x in kept), max(x.end_ns for x in kept), graph=False)


def _phase(name: str, forwards: Sequence[Forward]) -> Phase:
    return Phase(
        name=name,
        kernels=joined([forward.kernels for forward in forwards]),
        start_ns=min(forward.start_ns for forward in forwards),
        end_ns=max(forward.end_ns for forward in forwards),
        graph=all(forward.graph for forward in forwards),
        forwards=tuple(forwards),
    )


def _irregular(cycles: Sequence[TracedCycle]) -> str | None:
    """Return which phase has no usual size, comparing cycles of one batch size with each other."""
    if not cycles:
        return "no forward of a target model was recognised"
    for name in ("verify", "decode", "draft", "draft_extend"):
        sizes: dict[int | None, list[int]] = {}
        for cycle in cycles:
            if name in cycle.phases:
                sizes.setdefault(cycle.batch_size, []).append(len(cycle.phases[name].kernels))
        for batch_size, counts in sizes.items():
            usual = Counter(counts).most_common(1)[0][0]
            alike = sum(abs(count - usual) <= max(1, _TOLERANCE * usual) for count in counts)
            if alike < _REPEATING * len(counts):
                batch = "" if batch_size is None else f" at batch {batch_size}"
                return (
                    f"{name}{batch} does not repeat: {alike} of {len(counts)} occurrences have about "
                    f"{usual} kernels, the others {min(counts)} to {max(counts)}"
                )
    return None
