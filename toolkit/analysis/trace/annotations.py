"""What the engines' host ranges say: phase, batch size and tokens, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# "target": the target's forward, before it is known whether drafts are verified in it.
# "drafting": vLLM's one range for the extend and the draft pass together.
Label = Literal["draft", "draft_extend", "drafting", "target", "prefill"]


@dataclass(frozen=True, slots=True)
class RangeMeaning:
    """A range's phase; `batch_size` and `tokens` are None where its name does not say."""

    label: Label
    batch_size: int | None = None
    tokens: int | None = None


_SGLANG_STEP = re.compile(r"^step\[(?P<mode>[A-Z_0-9]+)(?:\s+bs=(?P<batch>\d+))?")
_SGLANG_MODES: dict[str, Label] = {
    "TARGET_VERIFY": "target",
    "VERIFY": "target",
    "DECODE": "target",
    "DRAFT": "draft",
    "DRAFT_EXTEND": "draft_extend",
    "DRAFT_EXTEND_V2": "draft_extend",
    "EXTEND": "prefill",
    "PREFILL": "prefill",
    "MIXED": "prefill",
    "SPLIT_PREFILL": "prefill",
}
# vLLM: prompts and their tokens, then decoding requests and their tokens
_VLLM_EXECUTE = re.compile(
    r"^execute_(?:context|new)_(\d+)(?:\((\d+)\))?_(?:generation|cached)_(\d+)(?:\((\d+)\))?"
)
_PLAIN_NAMES: dict[str, Label] = {
    "draft": "draft",
    "draft_extend": "draft_extend",
    "gpu_model_runner: forward": "target",
    "gpu_model_runner: draft": "drafting",
}


def range_meaning(name: str) -> RangeMeaning | None:
    """Return what a host range of this name holds; None for ranges that are no phase."""
    plain = _PLAIN_NAMES.get(name)
    if plain:
        return RangeMeaning(plain)
    step = _SGLANG_STEP.match(name)
    if step:
        label = _SGLANG_MODES.get(step["mode"])
        return RangeMeaning(label, int(step["batch"]) if step["batch"] else None) if label else None
    execute = _VLLM_EXECUTE.match(name)
    if execute:
        prompts, requests = int(execute[1]), int(execute[3])
        if prompts:
            return RangeMeaning("prefill")
        return RangeMeaning("target", requests, int(execute[4]) if execute[4] else None)
    return None


def meanings(names: Sequence[str]) -> list[RangeMeaning | None]:
    """Return the meaning of each name, in order."""
    return [range_meaning(name) for name in names]


_ENGINE_RANGES = (
    ("sglang", re.compile(r"^(?:step\[|scheduler\.)")),
    ("vllm", re.compile(r"^(?:execute_(?:context|new)_|gpu_model_runner: )")),
)


def engine_of(names: Sequence[str]) -> str | None:
    """Return the engine whose host ranges are among the names; None if none's or several engines' are."""
    found = {engine for engine, pattern in _ENGINE_RANGES if any(pattern.match(name) for name in names)}
    return found.pop() if len(found) == 1 else None
