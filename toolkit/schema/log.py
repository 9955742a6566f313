"""What the lines of a server log say, in our terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.schema.run import RunInfo

LineKind = Literal["decode", "prefill", "spec_metrics", "other"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Parallel ranks named in a line's prefix; None where the line does not say."""

    tp: int | None = None
    dp: int | None = None
    ep: int | None = None
    pp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One log line. Every field is None when the line does not say it.

    `accept_length` counts the bonus token. `accept_rate` is a fraction, as printed: which
    convention it follows is not applied here. `tok_s` is generation throughput over the batch.
    """

    engine: str | None = None
    kind: LineKind = "other"
    running_req: int | None = None
    accept_length: float | None = None
    accept_rate: float | None = None
    tok_s: float | None = None
    graph: bool | None = None
    timestamp: str | None = None  # as printed
    ranks: Ranks = field(default_factory=Ranks)
    truncated: bool = False
    # beyond what `--lines` prints
    line_number: int = 0
    context_tokens: int | None = None  # tokens held by the running requests, shared prefixes once
    queued_req: int | None = None
    prompt_tok_s: float | None = None  # vLLM: prompt tokens a second; above 0 the window held a prefill
    accept_by_position: tuple[float, ...] = ()  # unconditional, vLLM
    profiler: bool | None = None  # SGLang: the line says that the profiler started (True) or is done (False)
    num_correct_drafts: int | None = None  # vLLM: accepted tokens of the window
    num_proposed_drafts: int | None = None  # vLLM: drafted tokens of the window


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLog:
    """A log: its lines, and what the server's start-up lines said about the server itself."""

    source: str
    lines: tuple[LogLine, ...]
    server: RunInfo | None = None
    damage: tuple[str, ...] = ()
