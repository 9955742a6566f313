"""The process groups of a rank: the target's, its draft's, and one on the CPU for commands.

With a draft TP below the target's, each run of `draft_tp` neighbouring ranks holds a whole draft. All
of them draft: they start from the same hidden states and tokens and reduce in the same order, so they
choose the same drafts and nothing has to be broadcast.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from toolkit.reference.collectives import Group


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups one rank belongs to; `control` carries commands over gloo, None for a single rank."""

    target: Group
    draft: Group
    control: Any = None


def join_groups(
    rank: int, tp: int, draft_tp: int, device: torch.device, rendezvous: Path | None, delay_us: float = 0.0
) -> Groups:
    """Meet the other ranks in the file `rendezvous` and return this rank's groups. All must call it."""
    if tp == 1 or rendezvous is None:
        return Groups(Group(), Group())
    where = rendezvous.resolve().as_uri()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on one host
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=where, rank=rank, world_size=tp)
    target = Group(rank, tp, dist.group.WORLD, delay_us)
    return Groups(target, _draft_group(target, draft_tp), dist.new_group(backend="gloo"))


def _draft_group(target: Group, draft_tp: int) -> Group:
    if draft_tp == target.size:
        return target
    place = target.rank % draft_tp
    if draft_tp == 1:
        return Group()
    handles = [
        dist.new_group(list(range(first, first + draft_tp))) for first in range(0, target.size, draft_tp)
    ]
    return Group(place, draft_tp, handles[target.rank // draft_tp], target.delay_us)
