"""The flags that set an engine to a candidate, and what an engine cannot be set to."""

from __future__ import annotations

import json

from toolkit.schema.forecast import Reachable

_SGLANG_OFF = "leave out --speculative-algorithm and the other --speculative flags"
_VLLM_OFF = "leave out --speculative-config"


def reachable(
    engine: str | None, num_steps: int, topk: int, num_draft_tokens: int, *, other_draft_tp: int | None
) -> Reachable:
    """Return how a running engine gets to a candidate; only the reference has a flag for a draft TP."""
    if engine == "reference" and topk == 1:
        flags = f"--steps {num_steps}" if num_steps else "--plain"
        own = "" if other_draft_tp is None else f" --draft-tp {other_draft_tp}"
        return Reachable(engine=engine, how="flags", flags=flags + own)
    if other_draft_tp is not None:
        return Reachable(engine=engine, how="none", flags="")
    if engine == "sglang":
        return Reachable(engine=engine, how="flags", flags=sglang_flags(num_steps, topk, num_draft_tokens))
    if engine == "vllm":
        if topk > 1:
            return Reachable(engine=engine, how="none", flags="")
        return Reachable(engine=engine, how="flags", flags=vllm_flags(num_steps))
    return Reachable(engine=engine, how="none", flags="")


def sglang_flags(num_steps: int, topk: int, num_draft_tokens: int) -> str:
    """Return SGLang's three flags, which go together; words for what to leave out when off."""
    if num_steps == 0:
        return _SGLANG_OFF
    return (
        f"--speculative-num-steps {num_steps} --speculative-eagle-topk {topk} "
        f"--speculative-num-draft-tokens {num_draft_tokens}"
    )


def vllm_flags(num_steps: int) -> str:
    """Return vLLM's flag; method and draft model stay as they are in the running server's."""
    if num_steps == 0:
        return _VLLM_OFF
    return f"--speculative-config '{json.dumps({'num_speculative_tokens': num_steps})}'"


def draft_tp_limits(engine: str | None) -> str:
    """Return what an engine can do about the draft's tensor-parallel size, in a clause."""
    if engine == "sglang":
        return "SGLang has no flag for it (the draft runs on the target's group), so it needs a patch"
    if engine == "reference":
        return "the reference engine takes --draft-tp"
    if engine == "vllm":
        return (
            "vLLM takes draft_tensor_parallel_size but runs EAGLE drafts on the target's group all the same"
        )
    return "whether the engine can be set to it is not known"
