"""The groups of a rank: the target's, its draft's, and one on the CPU for commands.

With a draft TP below the target's, each run of `draft_tp` neighbouring ranks holds a whole draft. All
of them draft: they start from the same hidden states and tokens and reduce in the same order, so they
choose the same drafts and nothing has to be broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from toolkit.reference.collectives import Group
from toolkit.reference.one_shot import OneShot
from toolkit.reference.star import Star, meet


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups one rank belongs to; `control` carries commands, None for a single rank."""

    target: Group
    draft: Group
    control: Star | None = None


def join_groups(
    rank: int,
    tp: int,
    draft_tp: int,
    device: torch.device,
    rendezvous: Path | None,
    delay_us: float = 0.0,
    one_shot: bool = False,
) -> Groups:
    """Meet the other ranks at `rendezvous` and return this rank's groups. All must call it."""
    if tp == 1 or rendezvous is None:
        return Groups(Group(), Group())
    control = meet(rank, tp, rendezvous.with_name("ranks"))
    if device.type == "cpu":
        target = Group(rank, tp, control, delay_us)
        return Groups(target, _draft_on_cpu(target, draft_tp, rendezvous), control)
    dist.init_process_group("nccl", init_method=rendezvous.resolve().as_uri(), rank=rank, world_size=tp)
    world: Any = dist.group.WORLD
    target = Group(rank, tp, world, delay_us, OneShot(world, device) if one_shot else None)
    return Groups(target, _draft_on_gpus(target, draft_tp, device), control)


def _draft_on_cpu(target: Group, draft_tp: int, rendezvous: Path) -> Group:
    if draft_tp in (1, target.size):
        return Group() if draft_tp == 1 else target
    number, place = divmod(target.rank, draft_tp)
    handle = meet(place, draft_tp, rendezvous.with_name(f"draft-{number}"))
    return Group(place, draft_tp, handle, target.delay_us)


def _draft_on_gpus(target: Group, draft_tp: int, device: torch.device) -> Group:
    if draft_tp == target.size:
        return target
    place = target.rank % draft_tp
    if draft_tp == 1:
        return Group()
    handles = [
        dist.new_group(list(range(first, first + draft_tp))) for first in range(0, target.size, draft_tp)
    ]
    handle = handles[target.rank // draft_tp]
    return Group(
        place, draft_tp, handle, target.delay_us, OneShot(handle, device) if target.one_shot else None
    )
