"""Spreads, standard errors and medians of times that are not independent of their neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from toolkit.schema.inspection import Spread

_BLOCKS = 20  # neighbouring cycles share a request, a context and a clock: blocks of them are the units


def spread(values: ArrayLike) -> Spread | None:
    """Return median, 10th and 90th percentile, mean and its standard error; None without values.

    The standard error treats blocks of neighbouring values as the independent units, so it does not
    shrink with values that repeat each other.
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array)]
    if not len(array):
        return None
    low, middle, high = np.percentile(array, (10, 50, 90))
    return Spread(
        median=float(middle),
        p10=float(low),
        p90=float(high),
        mean=float(array.mean()),
        se=block_standard_error(array),
        count=len(array),
    )


def block_standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean from means of up to 20 blocks in order; 0 for one value."""
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return 0.0
    blocks = np.array([block.mean() for block in np.array_split(array, min(_BLOCKS, len(array)))])
    return float(blocks.std(ddof=1) / math.sqrt(len(blocks)))


def median(values: Sequence[float]) -> float | None:
    """Return the median, None without values."""
    return float(np.median(values)) if len(values) else None
