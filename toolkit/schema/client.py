"""The load that was driven and what its client counted (client.json)."""

from __future__ import annotations

from dataclasses import dataclass

CLIENT_SCHEMA = "toolkit.client/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCount:
    """Counters of one request: of `verify_cycles`, `correct_drafts_histogram[i]` kept i drafts."""

    output_tokens: int | None = None
    verify_cycles: int | None = None
    num_correct_drafts: int | None = None
    num_proposed_drafts: int | None = None
    correct_drafts_histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRepeat:
    """One repetition of the load: `output_tokens` over all its requests in `seconds` of wall time."""

    seconds: float
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """The load of one run as its client saw it; `repeats` are equal loads one after another.

    Client seconds include the prompts' prefill. `totals` is what the engine's own counters rose by over
    the whole load, for engines that count nothing per request.
    """

    batch_size: int | None = None
    prompt_tokens: int | None = None
    repeats: tuple[ClientRepeat, ...] = ()
    requests: tuple[RequestCount, ...] = ()
    totals: RequestCount | None = None
