"""Memory bandwidth of a device: reading as forwards do, and copying."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch

from toolkit.reference.calibrating.lanes import Host
from toolkit.reference.calibrating.timing import Work, timings_us

_GPU_BYTES, _CPU_BYTES = 1 << 31, 1 << 26  # far above any cache
_WIDTH = 8192  # columns of the matrix that is multiplied with a vector
_REPEATS = 10
_BYTES_PER_US_TO_GB_PER_S = 1e-3


def memory_speed(host: Host) -> list[dict[str, Any]]:
    """Return the bandwidth of every rank's memory; all ranks must call it.

    Reading is the faster of a sum and a product with a vector, which are what torch has. On the CPU one
    rank after the other, as they share the memory; GPUs at once.
    """
    host.say("memory bandwidth")
    if host.device.type == "cuda":
        return [{"rank": rank, **found} for rank, found in enumerate(host.share(_speed(host.device)))]
    found = _speed(host.device) if host.rank == 0 else None
    return [{"rank": 0, **host.share(found)[0]}]


def _speed(device: torch.device) -> dict[str, float]:
    size = _GPU_BYTES if device.type == "cuda" else _CPU_BYTES
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    source = torch.ones(size // kind.itemsize, dtype=kind, device=device).view(-1, _WIDTH)
    vector = torch.ones(_WIDTH, dtype=kind, device=device)
    wide = source.view(torch.float32)
    target = torch.empty_like(source)
    works: list[Work] = [lambda: torch.mv(source, vector), wide.sum, lambda: target.copy_(source)]
    product, total, copy = (median(times) for times in timings_us(works, device, _REPEATS))
    return {
        "read_gb_per_s": round(size / min(product, total) * _BYTES_PER_US_TO_GB_PER_S, 1),
        "copy_gb_per_s": round(2 * size / copy * _BYTES_PER_US_TO_GB_PER_S, 1),
    }
