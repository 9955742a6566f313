"""How much a configuration differs from one run to the next; it bounds what any interval may claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import fmean

from toolkit.model.cell import Cell, DesignKey
from toolkit.model.rows import Family

DEFAULT_RUN_SPREAD = 0.02  # servers restarted on one host differ by 1 to 5 %
PRIOR_DOF = 2  # how many replicates the default is worth


@dataclass(frozen=True, slots=True)
class RunSpread:
    """A relative spread between runs and the degrees of freedom measured for it."""

    spread: float
    dof: int


RunSpreads = dict[Family, RunSpread]


def run_spreads(cells: Sequence[Cell]) -> RunSpreads:
    """Return the spread of plain steps and of speculative cycles apart: hosts disturb the second more."""
    plain = _spread([cell for cell in cells if cell.num_steps == 0])
    speculative = _spread([cell for cell in cells if cell.num_steps > 0])
    return {"plain": plain, "speculative": speculative, "floor": speculative}


def _spread(cells: Sequence[Cell]) -> RunSpread:
    """The default counts as two degrees of freedom: a lucky pair promises no more than servers keep."""
    cycles: dict[DesignKey, list[float]] = {}
    for cell in cells:
        if cell.cycle is not None:
            cycles.setdefault(cell.design_key, []).append(log(cell.cycle.us))
    squares, dof = 0.0, 0
    for values in cycles.values():
        centre = fmean(values)
        squares += sum((value - centre) ** 2 for value in values)
        dof += len(values) - 1
    pooled = (PRIOR_DOF * DEFAULT_RUN_SPREAD**2 + squares) / (PRIOR_DOF + dof)
    return RunSpread(sqrt(pooled), dof)
