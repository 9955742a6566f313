"""Work on many items shared among the cores: forked copies of this process, each with a share of its own."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, NoReturn, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_WORKERS = 16
_in_a_fork = False


def mapped(
    work: Callable[[T], R],
    items: Sequence[T],
    weights: Sequence[int],
    *,
    worth_sharing: int,
    meanwhile: Callable[[], object] | None = None,
) -> list[R]:
    """Return `work` of each item, in order; shared among the cores where `weights` add up to enough.

    Results are the same with one core. A share whose process fails is worked through here, so that an
    error is raised as if nothing had been shared. A process with threads is not forked. Where others
    work, this process has a share of its own, or calls `meanwhile` and leaves all items to them.
    """
    workers = min(cores(), len(items), _MOST_WORKERS)
    if workers < 2 or sum(weights) < worth_sharing:
        return [work(item) for item in items]
    shares = _shares(weights, workers)
    kept = 0 if meanwhile else 1
    others = [_forked(work, [items[index] for index in share]) for share in shares[kept:]]
    done: dict[int, R] = {}
    try:
        if meanwhile:
            meanwhile()
        for share in shares[:kept]:
            done.update((index, work(items[index])) for index in share)
        found: list[list[R] | None] = [_collected(other) for other in others]
    except BaseException:
        _stop(others)
        raise
    for share, results in zip(shares[kept:], found, strict=True):
        values = [work(items[index]) for index in share] if results is None else results
        done.update(zip(share, values, strict=True))
    return [done[index] for index in range(len(items))]


def cores() -> int:
    """Return on how many cores this process may spread; 1 in a forked one and where forking is not safe."""
    if _in_a_fork or sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def _shares(weights: Sequence[int], workers: int) -> list[list[int]]:
    """Return the items of each worker: the heaviest first, each to who has least to do."""
    shares: list[list[int]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += weights[index]
    return shares


_Process = tuple[int, BinaryIO]  # its id, and where its results come from


def _forked(work: Callable[[T], R], items: Sequence[T]) -> _Process | None:
    """Return a process that works on the items; None where there can be none."""
    try:
        reading, writing = os.pipe()
    except OSError:
        return None
    try:
        with warnings.catch_warnings():  # threads of numpy's own count as threads there
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return None
    if not process:
        _work_and_exit(work, items, writing)
    os.close(writing)
    return process, os.fdopen(reading, "rb")


def _work_and_exit(work: Callable[[T], R], items: Sequence[T], writing: int) -> NoReturn:
    """Write the results and end this process, whatever happens; the parent knows a failure by their lack."""
    global _in_a_fork  # noqa: PLW0603
    try:
        _in_a_fork = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
        with os.fdopen(writing, "wb") as file:
            pickle.dump([work(item) for item in items], file, protocol=pickle.HIGHEST_PROTOCOL)
        os._exit(0)
    finally:
        os._exit(1)


def _collected(other: _Process | None) -> list[R] | None:
    """Return the results of a process, None if it did not bring all; it has ended afterwards."""
    if other is None:
        return None
    process, file = other
    results: list[R] | None = None
    with file, suppress(EOFError, pickle.UnpicklingError, OSError):
        results = pickle.load(file)
    _, status = os.waitpid(process, 0)
    return results if status == 0 else None


def _stop(others: Sequence[_Process | None]) -> None:
    """End the processes that have not been collected."""
    for other in others:
        if other is not None and not other[1].closed:
            os.kill(other[0], signal.SIGKILL)
            other[1].close()
            with suppress(ChildProcessError):
                os.waitpid(other[0], 0)
