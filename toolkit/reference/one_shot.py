"""All-reduces of small messages in one step: every rank reads the buffers of all others (symmetric memory).

NVLink multicast stays off: only the plain loads of `torch.ops.symm_mem` are used.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from toolkit.reference.errors import SettingError

MOST_BYTES = 512 * 1024  # every rank reads all buffers whole: for larger messages that is too much
_ALIGNMENT_BYTES = 16  # of a message, so that the kernel loads 16 bytes at once
_TYPES = (torch.float32, torch.bfloat16)  # what the kernels add


def why_not() -> str | None:
    """Return why this torch cannot do it; None where it can."""
    if not torch.cuda.is_available():
        return "symmetric memory needs GPUs"
    if not hasattr(torch.ops.symm_mem, "one_shot_all_reduce_copy"):
        return f"torch {torch.__version__} has no one_shot_all_reduce_copy over symmetric memory"
    return None


def symmetric_bytes(handle: dist.ProcessGroup, device: torch.device, count: int) -> Tensor:
    """Return memory that all ranks of a group can read. All of them must call it."""
    from torch.distributed import _symmetric_memory as symmetric

    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    letters: Tensor = symmetric.empty(count, dtype=torch.uint8, device=device)
    symmetric.rendezvous(letters, handle.group_name)
    return letters


class OneShot:
    """Adds up to `most_bytes` over the ranks of one group, in a buffer of its own."""

    def __init__(self, handle: dist.ProcessGroup, device: torch.device, most_bytes: int = MOST_BYTES) -> None:
        """Meet the others of the group; SettingError where this torch cannot do it."""
        if missing := why_not():
            raise SettingError(missing)
        self.most_bytes = most_bytes
        self._name = handle.group_name
        self._letters = symmetric_bytes(handle, device, most_bytes)
        self._into: Any = getattr(torch.ops.symm_mem, "one_shot_all_reduce_copy_out", None)

    def takes(self, values: Tensor) -> bool:
        """Return whether it can add these, which ranks of a group answer alike."""
        size_bytes = values.numel() * values.element_size()
        start_bytes = values.storage_offset() * values.element_size()
        return (
            values.dtype in _TYPES
            and 0 < size_bytes <= self.most_bytes
            and size_bytes % _ALIGNMENT_BYTES == 0
            and start_bytes % _ALIGNMENT_BYTES == 0
            and values.is_contiguous()
        )

    def add(self, values: Tensor) -> None:
        """Put the sum over the ranks into `values`.

        The kernel copies them into the shared buffer, meets the other ranks, and reads all buffers; it ends
        when all have read, so that the next one may write.
        """
        flat = values.view(-1)
        buffer = self._letters.view(values.dtype)[: flat.numel()]
        if self._into is None:
            flat.copy_(torch.ops.symm_mem.one_shot_all_reduce_copy(buffer, flat, "sum", self._name))
        else:
            self._into(buffer, flat, "sum", self._name, flat)
