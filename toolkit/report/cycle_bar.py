"""A cycle as one bar of blocks: how much of it each phase takes, for people."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.schema.inspection import Configuration, PhaseTime

_BLOCKS = {"draft": "▒", "verify": "█", "decode": "█", "sample": "▞", "draft_extend": "░"}
_LEFT = "·"
_NAMES = {"draft_extend": "extend"}
_TARGETS = ("verify", "decode")
_WIDTH = 70  # and the rank before it: 80 columns hold both


def cycle_bar(cell: Configuration) -> list[str]:
    """Return the bar of the lowest rank that fills its cycle, and a line that names its blocks.

    It is drawn of times on the GPU alone: times of calls around graphs are other quantities. What no such
    time covers is the gap, or the rest where a phase has none.
    """
    for rank in cell.ranks:
        times = _times(rank.phases, cell.cycle_us.median if cell.cycle_us else None)
        if times:
            total = sum(times.values())
            shares = {name: time / total for name, time in times.items()}
            blocks = {name: _BLOCKS.get(name, _LEFT) for name in shares}
            bar = "".join(blocks[name] * count for name, count in _columns(shares).items())
            named = [f"{blocks[name]} {_NAMES.get(name, name)} {share:.0%}" for name, share in shares.items()]
            return [f"rank {rank.tp_rank:<3} {bar}", f"{'':8} {'  '.join(named)}"]
    return []


def _times(phases: Mapping[str, PhaseTime], cycle_us: float | None) -> dict[str, float]:
    """Return the medians of a cycle's parts in order; {} without the target's, or if they are longer."""
    found: dict[str, float] = {}
    for name in _BLOCKS:
        graph = phases[name].graph_us if name in phases else None
        if graph is not None:
            found[name] = graph.median
    gap = phases["gap"].graph_us if "gap" in phases else None
    if not any(found.get(name) for name in _TARGETS):
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
