"""The rank that the others wait for, where it is the same one in most cycles."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from toolkit.analysis.trace.matched import Numbers
from toolkit.schema.inspection import Straggler
from toolkit.units import us_from_ns

_MOST_CYCLES = 0.7  # share of cycles in which one rank must be waited for most
_BY_CHANCE = 0.001  # chance of as many such cycles where all ranks are alike
_LEAST_SHARE = 0.002  # of a cycle that the others wait for it; less is not worth a sentence


def straggler(caused_ns: Numbers, tp_ranks: Sequence[int], cycle_us: float | None) -> Straggler | None:
    """Return the rank that is waited for most in nearly all cycles; None where ranks take turns.

    `caused_ns[cycle, rank]` is what the others waited on the mean while that rank was the last to come.
    """
    caused = caused_ns[np.isfinite(caused_ns).all(axis=1)]
    cycles, ranks = caused.shape
    if ranks < 2 or not cycles:
        return None
    leading = np.bincount(np.argmax(caused, axis=1), minlength=ranks)
    worst = int(np.argmax(leading))
    wait_us = us_from_ns(float(np.median(caused[:, worst])))
    share = float(leading[worst] / cycles)
    if share < _MOST_CYCLES or ranks * _tail(int(leading[worst]), cycles, 1 / ranks) > _BY_CHANCE * ranks:
        return None
    if cycle_us and wait_us < _LEAST_SHARE * cycle_us:
        return None
    return Straggler(tp_rank=tp_ranks[worst], cycles_share=share, others_wait_us=wait_us)


def _tail(times: int, of: int, chance: float) -> float:
    """Return the chance of `times` or more out of `of`."""
    return float(sum(comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(times, of + 1)))


def straggler_text(found: Straggler) -> str:
    """Return the sentence for people."""
    return (
        f"the other ranks wait for rank {found.tp_rank}: it comes last in {found.cycles_share:.0%} of the "
        f"cycles, and they wait {found.others_wait_us:,.1f} us a cycle for it"
    )
