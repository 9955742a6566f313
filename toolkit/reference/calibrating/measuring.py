"""One rank of a calibration: meets the others, measures with them; the first one writes the numbers."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
from typing import Any

import torch

from toolkit.reference import VERSION
from toolkit.reference.calibrating.collective_times import collective_times
from toolkit.reference.calibrating.forward_times import forward_times
from toolkit.reference.calibrating.lanes import Host, meet_host
from toolkit.reference.calibrating.memory_speed import memory_speed
from toolkit.reference.calibrating.settings import Settings
from toolkit.reference.config import ModelConfig
from toolkit.reference.rank import rank_device


def measure(settings: Settings, rank: int) -> None:
    """Measure everything as one rank, in the same order on all."""
    torch.set_grad_enabled(False)
    torch.set_num_threads(settings.engine.threads)
    device = rank_device(settings.engine.device, rank)
    ranks = settings.gpus or 1
    host = meet_host(rank, ranks, settings.tp_sizes, device, settings.rendezvous)
    gc.freeze()  # each capture may collect, and what was imported is not worth looking through
    host.say(f"{ranks} ranks have met")
    skipped: list[str] = []
    found = {
        **_facts(settings, host),
        "memory": memory_speed(host),
        "collectives": collective_times(host, settings, skipped),
        "forwards": forward_times(host, settings, skipped),
    }
    host.share("done")  # nobody leaves while others still exchange with it
    if rank == 0:
        unfinished = settings.result.with_name(f".{settings.result.name}.part")
        unfinished.write_text(
            json.dumps({**found, "skipped": list(dict.fromkeys(skipped))}) + "\n", encoding="utf-8"
        )
        os.replace(unfinished, settings.result)


def _facts(settings: Settings, host: Host) -> dict[str, Any]:
    """Return what was measured and where, under the names of toolkit.calibration/1."""
    engine, on_gpus = settings.engine, host.device.type == "cuda"
    nccl: Any = torch.cuda.nccl
    return {
        "engine_version": VERSION,
        "device": engine.device,
        "gpu": torch.cuda.get_device_name(host.device) if on_gpus else "CPU",
        "gpu_count": host.ranks if on_gpus else 0,
        "torch_version": torch.__version__,
        "nccl_version": ".".join(map(str, nccl.version())) if on_gpus else None,
        "sizes": list(settings.tp_sizes),
        "target": _sizes(engine.target, engine.dtype),
        "draft": _sizes(engine.draft, engine.dtype) if engine.draft else None,
        "draft_vocab": engine.draft_vocab,
    }


_SIZES = ("name", "layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab")


def _sizes(config: ModelConfig, dtype: str) -> dict[str, Any]:
    said = dataclasses.asdict(config)
    return {**{name: said[name] for name in _SIZES}, "dtype": dtype}
