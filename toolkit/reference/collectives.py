"""Every exchange between ranks during a forward goes through here, by name.

Callers use `collectives.all_reduce(...)`, never a copied name, so that one replaced attribute is seen
by all of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from toolkit.reference.one_shot import OneShot
from toolkit.reference.star import Star, letters, like

# torch 2.13 renamed it, and warns of the old name
_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that share a model: this rank's place among them.

    `handle`: a Star on the CPU, torch's process group on GPUs, None for a group of one.

    `delay_us`: artificial latency added to each all-reduce (CPU only), to play slow links.
    `one_shot`: adds the messages that it takes, NCCL the others; None for NCCL alone.
    """

    rank: int = 0
    size: int = 1
    handle: Any = None
    delay_us: float = 0.0
    one_shot: OneShot | None = None

    def part(self, count: int) -> slice:
        """Return this rank's share of `count` equal things."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)


def all_reduce(values: Tensor, group: Group, name: str) -> Tensor:
    """Return the sum of `values` over the ranks, in place. `name` says which part of the model asks."""
    if group.size > 1:
        if isinstance(group.handle, Star):
            group.handle.add(values)
        elif group.one_shot and group.one_shot.takes(values):
            group.one_shot.add(values)
        else:
            dist.all_reduce(values, group=group.handle)
        if group.delay_us:
            _wait(group.delay_us)
    return values


def all_gather(values: Tensor, group: Group, name: str) -> Tensor:
    """Return the ranks' `values` side by side: [..., n] becomes [..., size * n]."""
    if group.size == 1:
        return values
    if isinstance(group.handle, Star):
        return torch.cat([like(values, data) for data in group.handle.gather(letters(values))], dim=-1)
    gathered = torch.empty(
        (group.size * values.shape[0], *values.shape[1:]), dtype=values.dtype, device=values.device
    )
    gather_into(gathered, values.contiguous(), group.handle)
    return side_by_side(gathered, values, group)


def gather_into(whole: Tensor, part: Tensor, handle: dist.ProcessGroup) -> None:
    """Gather the ranks' parts one after another."""
    _GATHER(whole, part, group=handle)


def side_by_side(gathered: Tensor, values: Tensor, group: Group) -> Tensor:
    """Return what ranks gave one after another side by side, in the last dimension."""
    parts = gathered.view(group.size, *values.shape)
    return parts.movedim(0, -2).reshape(*values.shape[:-1], group.size * values.shape[-1])


def _wait(microseconds: float) -> None:
    """Spin: a sleep would take 50 us more than asked."""
    until = time.perf_counter_ns() + int(microseconds * 1000)
    while time.perf_counter_ns() < until:
        pass
