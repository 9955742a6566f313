"""The usual kernel sequence of a phase, and where the kernels of one occurrence stand in it.

Profilers lose kernels. Counting collectives from the start of a launch would then shift every later
one; their place in the usual sequence does not move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def usual_sequence(sequences: Sequence[Ids]) -> Ids:
    """Return the sequence that occurs most often; of several equally frequent ones the longest."""
    counts = Counter(sequence.tobytes() for sequence in sequences)
    most = max(counts.values())
    candidates = [sequence for sequence in sequences if counts[sequence.tobytes()] == most]
    return max(candidates, key=len)


def places(sequence: Ids, usual: Ids) -> Ids:
    """Return for each entry of `sequence` its index in `usual`, -1 where it has none.

    An occurrence is the usual sequence less what was lost, so each entry goes to the next equal one,
    skipping no more entries than are missing altogether; an entry that is not there is an addition.
    """
    if len(sequence) == len(usual) and np.array_equal(sequence, usual):
        return np.arange(len(usual), dtype=np.int64)
    found = np.full(len(sequence), -1, dtype=np.int64)
    names, wanted = sequence.tolist(), usual.tolist()
    at = 0
    for i, name in enumerate(names):
        missing = (len(wanted) - at) - (len(names) - i)  # entries that must still be skipped
        for step in range(max(0, missing) + 1):
            if at + step < len(wanted) and wanted[at + step] == name:
                found[i] = at + step
                at += step + 1
                break
    return found
