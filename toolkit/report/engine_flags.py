"""Files an engine reads: SGLang's flags, its adaptive schedule, vLLM's speculative config."""

from __future__ import annotations

import json
from collections.abc import Sequence

from toolkit.errors import UndeterminedError
from toolkit.forecast.flags import sglang_flags, vllm_flags
from toolkit.schema.forecast import Candidate, Forecast


def recommended_candidate(forecast: Forecast) -> Candidate:
    """Return the setting to emit; UndeterminedError when there is none."""
    index = forecast.recommendation.candidate
    if index is None:
        raise UndeterminedError(
            f"nothing to write, as the answer is 'cannot tell': {forecast.recommendation.why}; "
            "leave --emit out to see every step count"
        )
    return forecast.candidates[index]


def sglang_flags_text(candidate: Candidate) -> str:
    """Return the flags on one line, or what to leave out, as a comment."""
    flags = sglang_flags(candidate.num_steps, candidate.topk, candidate.num_draft_tokens)
    return f"{flags}\n" if candidate.num_steps else f"# {flags}\n"


def vllm_text(candidate: Candidate) -> str:
    """Return vLLM's flag on one line, or what to leave out, as a comment."""
    flags = vllm_flags(candidate.num_steps)
    return f"{flags}\n" if candidate.num_steps else f"# {flags}\n"


def vllm_schedule_text(by_batch: Sequence[tuple[int, int]]) -> str:
    """Return vLLM's flag with the drafts of each range of batch sizes: (batch, steps) pairs.

    A measured batch speaks for those below it down to the next smaller one, the last for all above.
    Format: config/speculative.py of vLLM 0.33. UndeterminedError where no batch should speculate.
    """
    most = max(steps for _, steps in by_batch)
    if most == 0:
        raise UndeterminedError(
            "no batch size gains by speculation, so there is none to write; start the server without it"
        )
    ranges: list[list[int]] = []
    for batch, steps in sorted(by_batch):
        start = ranges[-1][1] + 1 if ranges else 1
        if ranges and ranges[-1][2] == steps:
            ranges[-1][1] = batch
        else:
            ranges.append([start, batch, steps])
    config = {"num_speculative_tokens": most, "num_speculative_tokens_per_batch_size": ranges}
    return f"--speculative-config '{json.dumps(config)}'\n"


def adaptive_text(by_batch: Sequence[tuple[int, int]]) -> str:
    """Return SGLang's adaptive config with one step count for each batch tier: (batch, steps) pairs.

    A tier of one candidate never moves. Its first tier also serves smaller batches; neighbours with
    the same step count are one tier, as each tier costs graphs. Format: adaptive_spec_params.py of
    SGLang 0.5.15.
    """
    tiers: dict[str, dict[str, list[int]]] = {}
    last: int | None = None
    for batch, steps in sorted(by_batch):
        if steps != last:
            tiers[str(batch)] = {"candidate_steps": [steps]}
            last = steps
    return json.dumps(tiers) + "\n"


def adaptive_flags(by_batch: Sequence[tuple[int, int]], path: str) -> str:
    """Return the flags that make SGLang read the adaptive config; its start must be one of the steps."""
    start = max((steps for _, steps in by_batch), default=0)
    return (
        f"--speculative-adaptive --speculative-adaptive-config {path} --speculative-num-steps {start} "
        f"--speculative-eagle-topk 1 --speculative-num-draft-tokens {start + 1}"
    )
