"""The engines' own all-reduces, where an engine is installed: their classes, set up as the engines do.

Classes and calls as in SGLang 0.5.15 and vLLM 0.22; all of them out of place, with buffers registered by
`capture` for use inside CUDA graphs.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from toolkit.reference.calibrating.algorithms import Algorithm
from toolkit.reference.calibrating.lanes import Lane
from toolkit.reference.calibrating.timing import Work


@dataclass(frozen=True, slots=True)
class EngineClass:
    """Where an engine keeps its all-reduce: the name we give it, package, module and class."""

    name: str
    package: str
    module: str
    attribute: str


_SGLANG = "sglang.srt.distributed.device_communicators"
ENGINE_CLASSES = (
    EngineClass("sglang_custom", "sglang", f"{_SGLANG}.custom_all_reduce_v2", "CustomAllReduceV2"),
    EngineClass("sglang_custom_v1", "sglang", f"{_SGLANG}.custom_all_reduce", "CustomAllreduce"),
    EngineClass(
        "vllm_custom",
        "vllm",
        "vllm.distributed.device_communicators.custom_all_reduce",
        "CustomAllreduce",
    ),
)


def installed(found: EngineClass) -> bool:
    """Return whether the engine is there; nothing of it is imported."""
    return importlib.util.find_spec(found.package) is not None


def engine_algorithm(found: EngineClass, lane: Lane) -> Iterator[Algorithm]:
    """Yield the engine's all-reduce for a lane, whose ranks must all ask; raises what the engine raises."""
    engine_class = getattr(importlib.import_module(found.module), found.attribute)
    # engines set theirs up over a group whose messages stay on the host
    side = dist.new_group(list(range(lane.size)), backend="gloo", use_local_synchronization=True)
    made = engine_class(group=side, device=lane.device)
    finish = getattr(made, "finalize_p2p", None)  # vLLM 0.23 on checks the links apart
    if finish:
        finish()
    if made.disabled:
        raise RuntimeError("it is disabled for these GPUs, as its log says")

    def zeros(size: int) -> torch.Tensor:
        return torch.zeros(size // 2, dtype=torch.bfloat16, device=lane.device)

    def prepared(size: int) -> Work:
        values = zeros(size)
        return lambda: made.custom_all_reduce(values)

    def takes(size: int) -> bool:
        return size % 16 == 0 and bool(made.should_custom_ar(zeros(size)))

    yield Algorithm("all_reduce", found.name, prepared, takes, made.capture)
