"""A torch profiler trace of one rank, reduced to the columns that the analyses use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


def keep_all() -> None:
    """Release nothing: the columns lie in memory for good."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """GPU work (kernels, copies, sets), one entry each, sorted by start.

    All arrays have one length. `name` indexes `RankTrace.names`. `correlation` is the id of the
    host call that launched it: one id for every kernel of a graph replay. Times in ns.
    `group_size` and `message_bytes` are known for eagerly launched collectives alone, else 0.
    `node` is the kernel's node in its captured graph, 0 outside graphs; None where none was written.
    `place` is 0, 1, 2 and so on, where it lies with the others. The columns of a long trace lie in a
    file; `release` gives back the memory of what was read of them, which whoever goes through many
    kernels calls now and then.
    """

    name: Int32s
    start_ns: Int64s
    duration_ns: Int64s
    correlation: Int64s
    stream: Int64s
    group_size: Int64s
    message_bytes: Int64s
    node: Int64s | None = None
    place: Int32s | None = None
    release: Callable[[], None] = field(default=keep_all, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class HostCalls:
    """CUDA runtime and driver calls that carry a correlation id, sorted by start. Times in ns."""

    name: Int32s
    start_ns: Int64s
    duration_ns: Int64s
    correlation: Int64s
    thread: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class Annotations:
    """Host ranges named by the engine (`user_annotation`), sorted by start. Times in ns."""

    name: Int32s
    start_ns: Int64s
    duration_ns: Int64s
    thread: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """One process group of torch.distributed as `distributedInfo` lists it."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankTrace:
    """What one rank's profiler saw. `damage` says in sentences what could not be read."""

    source: str
    tp_rank: int
    world_size: int | None
    names: tuple[str, ...]
    kernels: Kernels
    host_calls: HostCalls
    annotations: Annotations
    process_groups: tuple[ProcessGroup, ...] = ()
    gpu: str | None = None
    with_stack: bool = False
    event_count: int = 0
    damage: tuple[str, ...] = ()
