"""One row of a table of benchmark numbers (measurements.csv)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measured configuration as somebody published it; None where the table is empty.

    `num_draft_tokens` counts the root; `accept_length` the bonus token. Times in ms, `tok_s` over
    the whole batch.
    """

    row: int  # line of the file, header = 1
    sweep: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    model: str | None = None
    draft_model: str | None = None
    tp_size: int | None = None
    draft_tp: int | None = None
    num_steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None
    batch_size: int | None = None
    context_tokens: int | None = None
    accept_length: float | None = None
    tok_s: float | None = None
    cycle_ms: float | None = None
    draft_ms: float | None = None
    verify_ms: float | None = None
    notes: str = ""
