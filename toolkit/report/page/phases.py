"""Phases of a measured cycle as widths to draw: one list of parts for each rank."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.schema.inspection import Configuration, PhaseTime, RankReport

NAMES = {
    "draft": "draft",
    "verify": "verify",
    "decode": "target forward",
    "sample": "sampling",
    "draft_extend": "extend",
    "gap": "host gap",
    "rest": "rest of the cycle",
}
_ORDER = ("draft", "verify", "decode", "sample", "draft_extend", "gap")
_LEAST_REST = 0.005  # of a cycle: less cannot be seen
_VLLM_ORDER = ("verify", "decode", "sample", "draft_extend", "draft", "gap")  # its extend drafts first


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One phase on one rank, in us. `wire` and `wait` are in `width`; `by_stage`: an event pair's time."""

    phase: str
    width: float
    wire: float = 0.0
    wait: float = 0.0
    by_stage: bool = False


def parts_of(rank: RankReport, engine: str | None) -> tuple[Part, ...]:
    """Return the phases of a rank in the order in which they run, those without a time left out."""
    order = _VLLM_ORDER if engine == "vllm" else _ORDER
    made = [_part(name, rank.phases[name]) for name in order if name in rank.phases]
    return tuple(part for part in made if part is not None)


def _part(name: str, time: PhaseTime) -> Part | None:
    if time.graph_us is not None:
        wait = min(max(time.wait_us or 0.0, 0.0), time.graph_us.median)
        wire = max((time.collectives_us or 0.0) - wait, 0.0)
        wire = min(wire, time.graph_us.median - wait)
        return Part(phase=name, width=time.graph_us.median, wire=wire, wait=wait)
    if time.stage_us is not None:
        return Part(phase=name, width=time.stage_us.median, by_stage=True)
    return None


def with_rest(parts: tuple[Part, ...], cycle_us: float | None) -> tuple[Part, ...]:
    """Return parts and what they leave of the median cycle, where no gap was measured."""
    left = (cycle_us or 0.0) - sum(part.width for part in parts)
    whole = not parts or any(part.phase in ("gap", "whole") for part in parts)
    if whole or left <= _LEAST_REST * (cycle_us or 0.0):
        return parts
    return (*parts, Part(phase="rest", width=left))


def has_phases(cell: Configuration) -> bool:
    """Return whether any rank has a phase with a time besides the gap."""
    return any(
        time.graph_us or time.stage_us
        for rank in cell.ranks
        for name, time in rank.phases.items()
        if name != "gap"
    )


def title_of(cell: Configuration) -> str:
    """Return a configuration in words."""
    steps = "unknown steps" if cell.num_steps is None else f"{cell.num_steps} draft steps"
    steps = {"0 draft steps": "plain decoding", "1 draft steps": "1 draft step"}.get(steps, steps)
    context = "" if cell.context_tokens is None else f", context {cell.context_tokens:,}"
    return f"{steps}, batch {'unknown' if cell.batch_size is None else cell.batch_size}{context}"
