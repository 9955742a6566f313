"""By how much a trace slowed the cycles that it saw: cycles inside its window against those around it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from toolkit.schema.spans import RankSpans, SpanCycle
from toolkit.units import us_from_ns

_FEWEST = 3
_PAUSE = 5.0  # usual cycles; longer ones waited for a request


def trace_inflation(spans: Sequence[RankSpans], from_ns: int, stopped_ns: int, to_ns: int) -> dict[str, Any]:
    """Return the median cycle while the trace was on over the median before and after it; {} if too few.

    The trace was on from `from_ns` to `stopped_ns`; until `to_ns` its files were written, which belongs
    to neither side.
    """
    cycles = spans[0].cycles if spans else ()
    during = _periods([c for c in cycles if from_ns <= c.t_ns <= stopped_ns])
    around = _periods([c for c in cycles if c.t_ns < from_ns]) + _periods(
        [c for c in cycles if c.t_ns > to_ns]
    )
    if len(during) < _FEWEST or len(around) < _FEWEST:
        return {}
    traced_us, usual_us = statistics.median(during), statistics.median(around)
    return {
        "inflation": round(traced_us / usual_us, 4),
        "cycle_us_traced": round(traced_us, 1),
        "cycle_us_around": round(usual_us, 1),
        "cycles": len(during),
        "how": "median time between cycles while the trace was on over that before and after, by the probe",
    }


def _periods(cycles: Sequence[SpanCycle]) -> list[float]:
    found = [
        us_from_ns(following.t_ns - this.t_ns)
        for this, following in pairwise(cycles)
        if following.cycle == this.cycle + 1 and following.batch_size == this.batch_size
    ]
    usual = statistics.median(found) if found else 0.0
    return [period for period in found if period <= _PAUSE * usual]
