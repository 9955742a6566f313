"""What is known about one run: one load on one started server (run.json)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

AcceptanceKind = Literal["real", "simulated"]
RUN_SCHEMA = "toolkit.run/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Identity and settings of a run; None is 'not known', never a default.

    `num_draft_tokens` counts the root (a chain of K steps verifies K+1 tokens per request).
    `context_tokens` is the mean context of a request over the run's window.
    `flags` and `captured` are free-form: how the server was started, how the files were taken.
    """

    engine: str | None = None  # "sglang" or "vllm", lower case
    engine_version: str | None = None
    model: str | None = None
    draft_model: str | None = None
    gpu: str | None = None
    tp_size: int | None = None
    draft_tp: int | None = None
    num_steps: int | None = None  # None also when steps adapt
    topk: int | None = None
    num_draft_tokens: int | None = None
    batch_size: int | None = None
    context_tokens: int | None = None
    temperature: float | None = None
    acceptance: AcceptanceKind | None = None
    overlap_schedule: bool | None = None  # host work of a cycle hidden behind the GPU's
    backend: str | None = None
    graph_sizes: tuple[int, ...] | None = (
        None  # that CUDA graphs were captured for: batch sizes, of vLLM tokens
    )
    largest_graph: int | None = None  # where only that is said
    flags: str | None = None
    with_stack: bool | None = None  # Python stacks on: times between graphs are inflated
    captured: dict[str, Any] = field(default_factory=dict)
    clocks: dict[str, Any] = field(default_factory=dict)
    overhead: dict[str, Any] = field(default_factory=dict)
