"""The ranks of this host and their groups: the first two, four, ... ranks, each a lane of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from toolkit.reference.star import Star, meet


@dataclass(frozen=True, slots=True)
class Lane:
    """A group of the first `size` ranks, as one of them sees it.

    `handle`: a Star on the CPU, torch's process group on GPUs, None for a single rank.
    """

    rank: int
    size: int
    device: torch.device
    handle: Any = None
    token: Tensor | None = None

    def align(self) -> None:
        """Let the ranks go on together: on GPUs the streams, without a wait of the host."""
        if isinstance(self.handle, Star):
            self.handle.gather(b"")
        elif self.handle is not None:
            dist.all_reduce(self.token, group=self.handle)


@dataclass(frozen=True, slots=True)
class Host:
    """One rank among all: its lanes by size, and how it tells the others."""

    rank: int
    ranks: int
    device: torch.device
    lanes: dict[int, Lane]
    control: Star | None = None

    def share(self, value: Any) -> list[Any]:
        """Return what every rank gives, in their order; all must call it."""
        if self.control is None:
            return [value]
        found = self.control.gather(json.dumps(value).encode())
        return [json.loads(bytes(one)) for one in found]

    def lane(self, size: int) -> Lane | None:
        """Return this rank's place in the group of that size; None where it has none."""
        found = self.lanes.get(size)
        return found if found and self.rank < size else None

    def say(self, text: str) -> None:
        """Tell whoever started the ranks how far they are."""
        if self.rank == 0:
            sys.stdout.write(f"progress {text}\n")
            sys.stdout.flush()


def meet_host(
    rank: int, ranks: int, sizes: Sequence[int], device: torch.device, rendezvous: Path | None
) -> Host:
    """Meet the other ranks and make the groups of these sizes that they suffice for; all must call it."""
    lanes = {1: Lane(0, 1, device)} if rank == 0 else {}
    if ranks == 1 or rendezvous is None:
        return Host(rank, ranks, device, lanes)
    control = meet(rank, ranks, rendezvous.with_name("ranks"))
    groups = [size for size in sizes if 1 < size <= ranks]
    if device.type == "cpu":
        for size in groups:
            if rank < size:
                lanes[size] = Lane(
                    rank, size, device, meet(rank, size, rendezvous.with_name(f"group-{size}"))
                )
        return Host(rank, ranks, device, lanes, control)
    dist.init_process_group("nccl", init_method=rendezvous.resolve().as_uri(), rank=rank, world_size=ranks)
    token = torch.zeros(1, device=device)
    for size in groups:
        handle = dist.new_group(list(range(size)))
        if rank < size:
            lanes[size] = Lane(rank, size, device, handle, token)
            lanes[size].align()  # communicators are made at the first message
            torch.cuda.synchronize()
    return Host(rank, ranks, device, lanes, control)
