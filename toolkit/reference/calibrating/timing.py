"""Timings of device work: between events on a GPU, with the host's clock without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

Work = Callable[[], Any]
_WARM_UPS = 2  # libraries allocate and choose kernels in their first calls, which a graph must not hold
_HEAD_START_CYCLES = 600_000  # 0.3 ms at 2 GHz: the host has launched all of a timing before the GPU begins
_NS_PER_US = 1000
_US_PER_MS = 1000


def nothing() -> None:
    """Do nothing."""


def captured(
    body: Work,
    device: torch.device,
    capturing: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Work:
    """Return a call that replays `body` from a CUDA graph; `body` itself without a GPU.

    All ranks of a group must capture in the same order. `capturing` is entered around the capture.
    """
    if device.type == "cpu":
        return body
    for _ in range(_WARM_UPS):
        body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog thread polls events meanwhile, which is forbidden in the default mode
    with capturing(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        body()
    replay: Work = graph.replay
    return replay


def timings_us(
    works: Sequence[Work], device: torch.device, repeats: int, align: Work = nothing, before: Work = nothing
) -> list[list[float]]:
    """Return the durations of each work, timed in turn `repeats` times.

    Each time `before` runs first, then `align` lets the ranks go on together; neither is timed.
    """
    for work in works:
        work()
    if device.type == "cpu":
        return _on_host(works, repeats, align, before)
    cuda: Any = torch.cuda
    cuda.synchronize()
    stamps: list[list[tuple[Any, Any]]] = [[] for _ in works]
    for _ in range(repeats):
        for place, work in enumerate(works):
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            cuda._sleep(_HEAD_START_CYCLES)
            before()
            align()
            start.record()
            work()
            end.record()
            stamps[place].append((start, end))
    cuda.synchronize()
    return [[start.elapsed_time(end) * _US_PER_MS for start, end in pairs] for pairs in stamps]


def _on_host(works: Sequence[Work], repeats: int, align: Work, before: Work) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for place, work in enumerate(works):
            before()
            align()
            start = time.perf_counter_ns()
            work()
            times[place].append((time.perf_counter_ns() - start) / _NS_PER_US)
    return times


def latency(ranks: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return median, 10th and 90th percentile over repeats, each repeat as long as on its slowest rank."""
    longest = sorted(max(times) for times in zip(*ranks, strict=True))
    return {
        "median": _quantile(longest, 0.5),
        "p10": _quantile(longest, 0.1),
        "p90": _quantile(longest, 0.9),
    }


def _quantile(ascending: Sequence[float], share: float) -> float:
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return round(ascending[low] + (ascending[high] - ascending[low]) * (place - low), 3)
