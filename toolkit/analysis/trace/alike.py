"""Kernel sequences that are of one graph: they hold about the same kernels, also where some were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.consensus import Ids

_OFTEN = 0.05  # share of all sequences that one must be for what it lacks not to be a loss of the profiler
_FEWEST_TIMES = 3
_APART = (1, 0.03)  # kernels, or share of them, by which two that are often seen may differ in all
_LOST = (4, 0.2)  # kernels, or share of them, that a rare one may lack
_MOST_HEADS = 500  # graphs that others are compared with; an engine captures some for each batch size
_ADDED = (2, 0.1)  # and that it may have beside those


def alike_groups(sequences: Iterable[NDArray[np.integer]], names: int) -> list[int]:
    """Return a group number for each sequence of name ids below `names`; those of one graph share theirs.

    The most frequent sequences, and of these the longest, lead the groups. One that is seen often joins
    only what it hardly differs from: a graph of one draft step less is no replay that lost kernels.
    """
    numbers: dict[bytes, int] = {}
    distinct: list[NDArray[np.integer]] = []
    keys: list[int] = []
    for sequence in sequences:
        keys.append(numbers.setdefault(sequence.tobytes(), len(numbers)))
        if len(numbers) > len(distinct):
            distinct.append(sequence)
    times = Counter(keys)
    heads: list[Ids] = []
    sizes: list[int] = []
    group_of_head: list[int] = []
    groups = -1
    group_of: dict[int, int] = {}
    for key in sorted(range(len(distinct)), key=lambda key: (-times[key], -len(distinct[key]))):
        held = np.bincount(distinct[key], minlength=names)
        often = times[key] >= max(_FEWEST_TIMES, _OFTEN * len(keys))
        length = len(distinct[key])
        about = [at for at, size in enumerate(sizes) if _about(size, length)]
        apart = [_apart(heads[at], held, often) for at in about]
        nearest = int(np.argmin(apart)) if apart else -1
        if apart and np.isfinite(apart[nearest]):
            group_of[key] = group_of_head[about[nearest]]
        else:
            group_of[key] = groups = groups + 1
            if len(heads) < _MOST_HEADS:
                heads.append(held)
                sizes.append(length)
                group_of_head.append(groups)
    return [group_of[key] for key in keys]


def _about(size: int, length: int) -> bool:
    """Return whether a sequence of that length can be of a group whose head has that size."""
    return size - max(_LOST[0], _LOST[1] * size) <= length <= size + max(_ADDED[0], _ADDED[1] * size)


def _apart(head: Ids, held: Ids, often: bool) -> float:
    """Return by how many kernels a sequence differs from a group's head; infinite if it is none of it."""
    lost, added = int(np.maximum(head - held, 0).sum()), int(np.maximum(held - head, 0).sum())
    size = int(head.sum())
    if often:
        return lost + added if lost + added <= _most(_APART, size) else np.inf
    return lost + added if lost <= _most(_LOST, size) and added <= _most(_ADDED, size) else np.inf


def _most(limit: tuple[int, float], size: int) -> float:
    return min(max(limit[0], limit[1] * size), size / 2)
