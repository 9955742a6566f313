"""How much a configuration differs from one run to the next; it bounds what any interval may claim."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from statistics import fmean

from toolkit.model.cell import Cell

DEFAULT_RUN_SPREAD = 0.02  # servers restarted on one host differ by 1 to 5 %
PRIOR_DOF = 2  # how many replicates the default is worth


def run_spread(cells: Sequence[Cell]) -> tuple[float, int]:
    """Return the relative spread between runs and the degrees of freedom measured for it.

    The default counts as two degrees of freedom, so that a lucky pair of runs does not promise more
    than servers keep.
    """
    cycles: dict[tuple[int, int, int, int, int | None], list[float]] = {}
    for cell in cells:
        if cell.cycle is not None:
            cycles.setdefault(cell.design_key, []).append(log(cell.cycle.us))
    squares, dof = 0.0, 0
    for values in cycles.values():
        centre = fmean(values)
        squares += sum((value - centre) ** 2 for value in values)
        dof += len(values) - 1
    pooled = (PRIOR_DOF * DEFAULT_RUN_SPREAD**2 + squares) / (PRIOR_DOF + dof)
    return sqrt(pooled), dof
