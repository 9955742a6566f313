"""Kernel sequences that are of one graph: they hold about the same kernels, also where some were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from toolkit.analysis.trace.consensus import Ids

_APART = 0.1  # share of a graph's kernels by which two replays of it may differ, where kernels were lost
_FEWEST_APART = 2  # kernels by which even two small ones may


def alike_groups(sequences: Sequence[Ids], names: int) -> list[int]:
    """Return a group number for each sequence of name ids below `names`; those of one graph share theirs.

    The most frequent sequences, and of these the longest, lead the groups; the others join the nearest.
    """
    keys = [sequence.tobytes() for sequence in sequences]
    times = Counter(keys)
    distinct = dict(zip(keys, sequences, strict=True))
    heads: list[Ids] = []
    group_of: dict[bytes, int] = {}
    for key in sorted(distinct, key=lambda key: (-times[key], -len(distinct[key]))):
        held = np.bincount(distinct[key], minlength=names)
        apart = [int(np.abs(head - held).sum()) for head in heads]
        nearest = int(np.argmin(apart)) if apart else -1
        if apart and apart[nearest] <= max(_FEWEST_APART, _APART * len(distinct[key])):
            group_of[key] = nearest
        else:
            group_of[key] = len(heads)
            heads.append(held)
    return [group_of[key] for key in keys]
