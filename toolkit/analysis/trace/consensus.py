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

_MOST_ALIKE = 0.5  # share of occurrences that are equal where nothing, or little, was lost
_MOST_MERGED = 12  # occurrences that are merged: a kernel lost in all of them is not to be expected
_KEPT = 0.25  # share of the merged occurrences that must hold a kernel
_MOST_DIFFERENCES = 200  # between two occurrences; more are not the same work


def usual_sequence(sequences: Sequence[Ids]) -> Ids:
    """Return the sequence that most occurrences show; where all lost something, what they hold together.

    Of several equally frequent ones the longest is taken.
    """
    counts = Counter(sequence.tobytes() for sequence in sequences)
    most = max(counts.values())
    candidates = [sequence for sequence in sequences if counts[sequence.tobytes()] == most]
    longest = max(candidates, key=len)
    if most >= _MOST_ALIKE * len(sequences):
        return longest
    others = sorted((sequence for sequence in sequences if sequence is not longest), key=len, reverse=True)
    return _together([longest, *others[: _MOST_MERGED - 1]])


def _together(sequences: Sequence[Ids]) -> Ids:
    """Merge occurrences, longest first, into one that holds what a fair share of them holds."""
    merged = sequences[0].tolist()
    held = [1] * len(merged)
    joined = 1
    for sequence in sequences[1:]:
        pairs = _common(merged, sequence.tolist())
        if pairs is not None:
            merged, held = _merged(merged, held, sequence.tolist(), pairs)
            joined += 1
    kept = [name for name, count in zip(merged, held, strict=True) if count >= _KEPT * joined]
    return np.array(kept, dtype=np.int64)


def _merged(
    base: list[int], held: list[int], other: list[int], pairs: list[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Return `base` with what only `other` has put where it stands, and in how many each entry was."""
    names: list[int] = []
    counts: list[int] = []
    i = j = 0
    for next_i, next_j in [*pairs, (len(base), len(other))]:
        names += base[i:next_i] + other[j:next_j]
        counts += held[i:next_i] + [1] * (next_j - j)
        if next_i < len(base):
            names.append(base[next_i])
            counts.append(held[next_i] + 1)
        i, j = next_i + 1, next_j + 1
    return names, counts


def _common(first: list[int], second: list[int]) -> list[tuple[int, int]] | None:
    """Return the index pairs of a longest common subsequence; None if the two differ too much.

    Source: E. W. Myers, An O(ND) difference algorithm (1986), the greedy forward pass.
    """
    farthest = {1: 0}
    passes: list[dict[int, int]] = []
    for differences in range(min(len(first) + len(second), _MOST_DIFFERENCES) + 1):
        passes.append(dict(farthest))
        for diagonal in range(-differences, differences + 1, 2):
            i, _ = _entered(farthest, diagonal, differences)
            while i < len(first) and i - diagonal < len(second) and first[i] == second[i - diagonal]:
                i += 1
            farthest[diagonal] = i
            if i >= len(first) and i - diagonal >= len(second):
                return _traced(passes, len(first), len(second))
    return None


def _entered(farthest: dict[int, int], diagonal: int, differences: int) -> tuple[int, bool]:
    """Return where a path of that many differences enters a diagonal, and whether it skips in `second`."""
    skips_second = diagonal == -differences or (
        diagonal != differences and farthest[diagonal - 1] < farthest[diagonal + 1]
    )
    return (farthest[diagonal + 1], True) if skips_second else (farthest[diagonal - 1] + 1, False)


def _traced(passes: list[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
    """Walk the passes back from the ends and collect what is equal in both."""
    pairs: list[tuple[int, int]] = []
    for differences in range(len(passes) - 1, -1, -1):
        entered, skipped_second = 0, True
        if differences:
            entered, skipped_second = _entered(passes[differences], i - j, differences)
        while i > entered:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        i, j = (i, j - 1) if skipped_second else (i - 1, j)
    return pairs[::-1]


def places(sequence: Ids, usual: Ids) -> Ids:
    """Return for each entry of `sequence` its index in `usual`, -1 where it has none.

    An occurrence is the usual sequence less what was lost, maybe with additions: the places are those of
    a longest common subsequence. Two that differ too much are not the same work, and nothing has a place.
    """
    if len(sequence) == len(usual) and np.array_equal(sequence, usual):
        return np.arange(len(usual), dtype=np.int64)
    found = np.full(len(sequence), -1, dtype=np.int64)
    for at, index in _common(usual.tolist(), sequence.tolist()) or ():
        found[index] = at
    return found
