"""Collectives by algorithm: each makes, for a size of message, a call that runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from toolkit.reference.calibrating.lanes import Lane
from toolkit.reference.calibrating.timing import Work
from toolkit.reference.collectives import gather_into
from toolkit.reference.one_shot import OneShot, symmetric_bytes
from toolkit.reference.star import Star, letters

_TYPE = torch.bfloat16
_TYPE_BYTES = 2
_MOST_BROADCAST_BYTES = 64 * 1024  # what is broadcast in a cycle are tokens


@dataclass(frozen=True, slots=True)
class Algorithm:
    """`prepared` returns a call for messages of so many bytes; `takes` whether there can be one."""

    op: str
    name: str
    prepared: Callable[[int], Work]
    takes: Callable[[int], bool]
    capturing: Callable[[], AbstractContextManager[Any]] = nullcontext


def plain_algorithms(lane: Lane) -> Iterator[Algorithm]:
    """Yield what a lane always has: NCCL on GPUs, the star on the CPU."""
    name = "star" if isinstance(lane.handle, Star) else "nccl"
    whole_parts = _TYPE_BYTES * lane.size
    yield Algorithm("all_reduce", name, lambda size: _all_reduce(lane, size), _is_whole(_TYPE_BYTES))
    yield Algorithm("all_gather", name, lambda size: _all_gather(lane, size), _is_whole(whole_parts))
    yield Algorithm(
        "broadcast", name, lambda size: _broadcast(lane, size), lambda size: size <= _MOST_BROADCAST_BYTES
    )


def symmetric_algorithms(most_bytes: int, lane: Lane) -> Iterator[Algorithm]:
    """Yield all-reduces over symmetric memory; all ranks of the lane must take them."""
    one_shot = OneShot(lane.handle, lane.device, most_bytes)

    def one(size: int) -> Work:
        values = _zeros(lane, size)
        return lambda: one_shot.add(values)

    yield Algorithm("all_reduce", "one_shot", one, _is_whole(16))
    if not hasattr(torch.ops.symm_mem, "two_shot_all_reduce_"):
        return
    shared = symmetric_bytes(lane.handle, lane.device, most_bytes).view(_TYPE).zero_()
    group_name = lane.handle.group_name

    def two(size: int) -> Work:
        values = shared[: size // _TYPE_BYTES]
        return lambda: torch.ops.symm_mem.two_shot_all_reduce_(values, "sum", group_name)

    yield Algorithm("all_reduce", "two_shot", two, _is_whole(16 * lane.size))


def _is_whole(multiple: int) -> Callable[[int], bool]:
    return lambda size: size % multiple == 0


def _zeros(lane: Lane, size_bytes: int) -> Tensor:
    return torch.zeros(size_bytes // _TYPE_BYTES, dtype=_TYPE, device=lane.device)


def _all_reduce(lane: Lane, size: int) -> Work:
    values, handle = _zeros(lane, size), lane.handle
    if isinstance(handle, Star):
        return lambda: handle.add(values)
    return lambda: dist.all_reduce(values, group=handle)


def _all_gather(lane: Lane, size: int) -> Work:
    part, handle = _zeros(lane, size // lane.size), lane.handle
    if isinstance(handle, Star):
        return lambda: handle.gather(letters(part))
    whole = _zeros(lane, size)
    return lambda: gather_into(whole, part, handle)


def _broadcast(lane: Lane, size: int) -> Work:
    values, handle = _zeros(lane, size), lane.handle
    if isinstance(handle, Star):
        return lambda: handle.broadcast(bytes(letters(values)))
    return lambda: dist.broadcast(values, src=0, group=handle)
