"""A cycle as one bar of blocks: how much of it each phase takes, for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolkit.schema.inspection import Configuration, PhaseTime

_BLOCKS = {"draft": "▒", "verify": "█", "decode": "█", "sample": "▞", "draft_extend": "░"}
_LEFT = "·"
_NAMES = {"draft_extend": "extend"}
_TARGETS = ("verify", "decode")
_WIDTH = 70  # and the rank before it: 80 columns hold both


def cycle_bar(cell: Configuration) -> list[str]:
    """Return the bar of the lowest rank that fills its cycle, and lines that name its blocks.

    It is drawn of times on the GPU. A phase without one, as vLLM's draft, which no graph holds, is as long as
    its calls took, if that leaves the cycle room, and marked. What is left is the gap, or the rest.
    """
    cycle_us = cell.cycle_us.median if cell.cycle_us else None
    for rank in cell.ranks:
        by_calls = [name for name in _BLOCKS if _by_calls(rank.phases.get(name))]
        times = _times(rank.phases, cycle_us, by_calls)
        if not times:
            by_calls = []
            times = _times(rank.phases, cycle_us, by_calls)
        if times:
            total = sum(times.values())
            shares = {name: time / total for name, time in times.items()}
            blocks = {name: _BLOCKS.get(name, _LEFT) for name in shares}
            bar = "".join(blocks[name] * count for name, count in _columns(shares).items())
            marks = {name: "*" if name in by_calls else "" for name in shares}
            named = [
                f"{blocks[name]} {_NAMES.get(name, name)}{marks[name]} {share:.0%}"
                for name, share in shares.items()
            ]
            lines = [f"rank {rank.tp_rank:<3} {bar}", f"{'':8} {'  '.join(named)}"]
            return [*lines, f"{'':8} * timed around its calls"] if by_calls else lines
    return []


def _by_calls(phase: PhaseTime | None) -> bool:
    return phase is not None and phase.graph_us is None and phase.stage_us is not None


def _times(
    phases: Mapping[str, PhaseTime], cycle_us: float | None, by_calls: Collection[str]
) -> dict[str, float]:
    """Return the medians of a cycle's parts in order; {} without the target's, or if they are longer."""
    found: dict[str, float] = {}
    for name in (name for name in _BLOCKS if name in phases):
        time = phases[name].stage_us if name in by_calls else phases[name].graph_us
        if time is not None:
            found[name] = time.median
    gap = phases["gap"].graph_us if "gap" in phases else None
    if not any(found.get(name) for name in _TARGETS if name not in by_calls):
        return {}
    if gap is not None:
        return {**found, "gap": max(gap.median, 0.0)}
    left = (cycle_us or 0.0) - sum(found.values())
    return {**found, "rest": left} if left > 0 else {}


def _columns(shares: Mapping[str, float]) -> dict[str, int]:
    """Return how many columns each part gets: at least one, and `_WIDTH` together."""
    counts, start, done = {}, 0, 0.0
    for name, share in shares.items():
        done += share
        counts[name] = max(round(done * _WIDTH) - start, 1)
        start = round(done * _WIDTH)
    counts[max(counts, key=lambda name: counts[name])] += _WIDTH - sum(counts.values())
    return counts
