"""Which forwards are the target model's, and whether drafts are verified in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.analysis.trace.forwards import Forward, Marker


def target_positions(forwards: Sequence[Forward], markers: Sequence[Marker]) -> list[int]:
    """Return the indices of the target's forwards.

    The engine's host ranges say it; where it writes none, a forward is the target's if its output is
    compared with drafts (an accept kernel follows before any other forward), or if it follows the
    build of the draft tree. Without either every forward is the target's, if all are alike.
    """
    labelled = [i for i, forward in enumerate(forwards) if forward.label == "target"]
    if labelled:
        return labelled
    accepting = _before_markers(forwards, [m.position for m in markers if m.kind == "accept"])
    if accepting:
        return accepting
    built = _after_markers(forwards, [m.position for m in markers if m.kind == "tree"])
    if built:
        return built
    return _alike_or_longest(forwards)


def _before_markers(forwards: Sequence[Forward], positions: Sequence[int]) -> list[int]:
    lasts = np.array([forward.last for forward in forwards])
    found = {int(np.searchsorted(lasts, position)) - 1 for position in positions}
    return sorted(i for i in found if i >= 0)


def _after_markers(forwards: Sequence[Forward], positions: Sequence[int]) -> list[int]:
    firsts = np.array([forward.first for forward in forwards])
    found = {int(np.searchsorted(firsts, position)) for position in positions}
    return sorted(i for i in found if i < len(forwards))


def _alike_or_longest(forwards: Sequence[Forward]) -> list[int]:
    """Without ranges and markers the longest kind of forward is taken for the target's."""
    if not forwards:
        return []
    durations = np.array([forward.end_ns - forward.start_ns for forward in forwards], dtype=float)
    sizes = np.array([len(forward.kernels) for forward in forwards])
    kinds = sorted(set(sizes.tolist()), key=lambda size: float(np.median(durations[sizes == size])))
    return [int(i) for i in np.flatnonzero(sizes == kinds[-1])]


def is_speculative(forwards: Sequence[Forward], markers: Sequence[Marker], targets: Sequence[int]) -> bool:
    """Return whether the target verifies drafts: others run beside it, or something is accepted."""
    if any(marker.kind in ("accept", "tree") for marker in markers):
        return True
    others = [f for i, f in enumerate(forwards) if i not in set(targets) and f.label != "prefill"]
    if len(others) >= max(2, len(targets) // 2):
        return True
    meanings = [forwards[i].meaning for i in targets]
    return any(m and m.tokens and m.batch_size and m.tokens > m.batch_size for m in meanings)
