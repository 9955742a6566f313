"""Checks of traces against each other: collectives matched over ranks, and clocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from toolkit.analysis.trace.collectives import MATCHED
from toolkit.analysis.trace.trace_view import TraceView
from toolkit.schema.inspection import Configuration, HealthCheck
from toolkit.units import PPM, us_from_ns

_MOST_LISTED = 16


def collectives_matched(cells: Sequence[Configuration]) -> HealthCheck | None:
    """Say how many collectives were found in their places on the ranks; None where ranks are not compared."""
    fractions = [
        (fraction, phase)
        for cell in cells
        for phase, fraction in _by_phase(cell).items()
        if fraction is not None
    ]
    if not fractions:
        return None
    least, phase = min(fractions)
    detail = f"{least:.1%} of the collectives of {phase}, the worst phase, were found in their places"
    refused = list(dict.fromkeys(name for fraction, name in fractions if fraction < MATCHED))
    if refused:
        detail += (
            f"; below {MATCHED:.0%} wire and wait are not told apart, so neither is given for "
            f"{', '.join(refused)}: record the trace again, over fewer cycles"
        )
    return HealthCheck(check="collectives matched over ranks", ok=not refused, detail=detail)


def _by_phase(cell: Configuration) -> dict[str, float | None]:
    """Return the matched share of each phase's collectives, its rows by how many a cycle they are."""
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for report in cell.collectives:
        if report.matched_fraction is not None:
            rows[report.phase].append((report.matched_fraction, max(report.per_cycle, 1.0)))
    return {
        phase: sum(fraction * count for fraction, count in own) / sum(count for _, count in own)
        for phase, own in rows.items()
    }


def one_clock(view: TraceView | None) -> HealthCheck | None:
    """Say how well the ranks' clocks agree, and which ranks have another host's; None for one rank."""
    if view is None or len(view.ranks) < 2:
        return None
    first = view.ranks[view.compared[0]].tp_rank if view.compared else view.ranks[0].tp_rank
    known = [clock for clock in view.clocks if clock and clock.collectives]
    detail = "no collectives that tell"
    if known:
        spread, offset = max(c.spread_ns for c in known), max(abs(c.offset_ns) for c in known)
        drift = max(abs(clock.drift) for clock in known) * PPM
        detail = (
            f"ends of collectives agree to {us_from_ns(spread):.1f} us, once offsets of up to "
            f"{us_from_ns(offset):,.1f} us and drifts of up to {drift:.1f} ppm are taken out"
        )
    if view.apart:
        named = ", ".join(map(str, view.apart[:_MOST_LISTED])) + (
            " ..." if len(view.apart) > _MOST_LISTED else ""
        )
        detail = (
            f"rank {named} shares no clock, or no cycles, with rank {first}: ranks of another host or of "
            "another window cannot be compared, so wire and wait are of the other ranks and an upper bound"
        )
    return HealthCheck(
        check="ranks on one clock", ok=not view.apart if known or view.apart else None, detail=detail
    )
