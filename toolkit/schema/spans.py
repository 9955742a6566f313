"""Spans of cycles as the probe writes them (spans-TP-<r>.jsonl.gz)."""

from __future__ import annotations

from dataclasses import dataclass, field

SPANS_SCHEMA = "toolkit.spans/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCycle:
    """One cycle of one rank. Times in us but for `t_ns`, the host's clock at the cycle's start.

    `stage_us` comes from event pairs around the engine's calls, `graph_us` from events inside the
    graphs; they are different quantities. `correct_drafts` has one count per request, bonus excluded.

    `collectives_us` has, by phase and in the order in which it runs them, the time between two events
    around each collective: this rank's waiting for the others and the events' own time included. What
    is taken inside graphs is taken in sampled cycles, each of one kind, so that a cycle with one of
    `graph_us`, `draft_steps_us` and `collectives_us` need not have another.
    """

    cycle: int
    t_ns: int
    batch_size: int | None = None
    padded_batch_size: int | None = None
    context_tokens: int | None = None
    num_steps: int | None = None
    num_draft_tokens: int | None = None
    graph: dict[str, bool | None] | None = None
    stage_us: dict[str, float | None] | None = None
    graph_us: dict[str, float | None] | None = None
    draft_steps_us: tuple[float, ...] | None = None
    collectives_us: dict[str, tuple[float, ...] | None] | None = None
    correct_drafts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpans:
    """All cycles that one rank recorded; `dropped` cycles did not fit the probe's buffer.

    `event_pair_us` is the time of an empty pair of events on the rank's GPU, None if not measured.
    """

    source: str
    tp_rank: int
    clock: str
    dropped: int
    cycles: tuple[SpanCycle, ...]
    damage: tuple[str, ...] = field(default=())
    event_pair_us: float | None = None
