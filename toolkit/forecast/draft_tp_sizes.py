"""Draft TP sizes that can be forecast as values, compared with the one that was run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toolkit.forecast.candidates import Forecaster, interval_ms
from toolkit.forecast.flags import draft_tp_limits, reachable
from toolkit.model.calibrated_forwards import CalibratedDraft, latency_us
from toolkit.model.draft_elsewhere import Elsewhere
from toolkit.model.parts import parts_at
from toolkit.model.terms import Setting, Vector
from toolkit.schema.forecast import DraftTpAnswer, DraftTpSize, Interval
from toolkit.units import ms_from_us

_NOTHING = 0.005  # below it a gain rounds to 0 %
_ID_BYTES = 8  # of a token that one rank would broadcast
_GB = 1e9


def with_sizes(
    answer: DraftTpAnswer, forecaster: Forecaster, at: Setting, known: Sequence[Elsewhere]
) -> DraftTpAnswer:
    """Return the answer with what is known of other sizes, the fastest of them against the one that was run.

    The recommendation changes only where the paired interval of the gain is above nothing and the engine
    can be set to it; else the gain that is left is told.
    """
    assert answer.recommendation is not None
    measured, engine = answer.recommendation, forecaster.group.engine
    sizes = [_size(other, at, engine) for other in known]
    best = max(range(len(sizes)), key=lambda index: sizes[index].gain.value or 0.0)
    chosen, there = sizes[best], known[best]
    low, value, high = chosen.gain.lo or 0.0, chosen.gain.value or 0.0, chosen.gain.hi or 0.0
    settable = chosen.reachable.how == "flags"
    limits = draft_tp_limits(engine)
    took = (
        f"draft and extend take {ms_from_us(there.before.value):.2f} ms at TP{measured} and "
        f"{chosen.draft_ms.value:.2f} ms at TP{chosen.draft_tp} ({chosen.draft_ms.lo:.2f} to "
        f"{chosen.draft_ms.hi:.2f}), {_source(forecaster, there)}"
    )
    gain = f"{value:+.1%} ({low:+.1%} to {high:+.1%})"
    recommendation, tie = measured, False
    if low > 0 and value >= _NOTHING:
        said = f"draft TP{chosen.draft_tp} gains {gain}"
        if settable:
            recommendation = chosen.draft_tp
        else:
            said += f", which is left on the table: the draft stays at TP{measured}, as {limits}"
    elif high < 0:
        said = f"draft TP{measured} stays, as TP{chosen.draft_tp} would change tokens per second by {gain}"
    else:
        tie = True
        said = f"tie, so draft TP{measured} stays: TP{chosen.draft_tp} changes tokens per second by {gain}"
        said += "" if settable else f"; {limits}"
    clauses = [answer.why, took, said, *_costs(forecaster, at, there), *there.notes]
    even = _break_even(forecaster, at, there, measured)
    return replace(
        answer,
        recommendation=recommendation,
        why="; ".join(clauses),
        best=chosen.draft_tp,
        tie=tie,
        sizes=tuple(sizes),
        break_even_allreduce_us=answer.break_even_allreduce_us if even is None else even.value,
        break_even_allreduce=even,
    )


def _source(forecaster: Forecaster, there: Elsewhere) -> str:
    calibration = forecaster.group.calibration
    return f"by the calibration {calibration.run}" if calibration and there.there else "as run"


def _size(other: Elsewhere, at: Setting, engine: str | None) -> DraftTpSize:
    return DraftTpSize(
        draft_tp=other.size,
        draft_ms=interval_ms(other.draft.value, other.draft.lo, other.draft.hi),
        cycle_ms=interval_ms(other.cycle.value, other.cycle.lo, other.cycle.hi),
        gain=_gain(other),
        weight_bytes=other.there.weight_bytes if other.there else None,
        reachable=reachable(engine, at.num_steps, at.topk, at.num_draft_tokens, other_draft_tp=other.size),
    )


def _gain(other: Elsewhere) -> Interval:
    """Return the gain in tokens per second: draws of both cycles are paired, acceptance is the same."""
    value = other.slowdown[0]
    gains = 1 / other.slowdown - 1
    low, high = (float(end) for end in np.quantile(gains[1:], [0.05, 0.95]))
    gain = float(1 / value - 1)
    return Interval(value=gain, lo=min(low, gain), hi=max(high, gain))


def _costs(forecaster: Forecaster, at: Setting, there: Elsewhere) -> list[str]:
    """Return what another size costs in memory, and what one copy with a broadcast would cost in time."""
    group = forecaster.group
    said = []
    if there.there and there.here and there.there.weight_bytes and there.here.weight_bytes:
        said.append(
            f"a GPU then reads {there.there.weight_bytes / _GB:.2f} GB of draft weights instead of "
            f"{there.here.weight_bytes / _GB:.2f}"
        )
    if group.tp_size and there.size < group.tp_size:
        text = "each group of ranks drafts the same, so nothing is broadcast"
        broadcast = _broadcast_us(forecaster, at)
        if broadcast is not None:
            text += f"; one copy with a broadcast of its drafts would take about {broadcast:.0f} us longer"
        said.append(text)
    return said


def _broadcast_us(forecaster: Forecaster, at: Setting) -> float | None:
    calibration, ranks = forecaster.group.calibration, forecaster.group.tp_size
    if calibration is None or ranks is None:
        return None
    ids = _ID_BYTES * at.batch_size * max(at.num_draft_tokens - 1, 1)
    names = dict.fromkeys(one.algorithm for one in calibration.collectives if one.op == "broadcast")
    times = [latency_us(calibration, "broadcast", name, ranks, ids) for name in names]
    return min((time for time in times if time is not None), default=None)


def _collectives(draft: CalibratedDraft | None) -> float:
    return float(draft.collectives) if draft else 0.0


def _break_even(forecaster: Forecaster, at: Setting, other: Elsewhere, measured: int) -> Interval | None:
    """Return the time of a collective in the larger group at which both sizes take equally long, in us.

    D' + n' r x = D + n x, D and n being compute and collectives at the larger size, D' and n' at the
    smaller one, where a collective takes r times as long as in the larger group (no time on one GPU).
    """
    if not other.apart:
        return None
    counts = [
        parts_at(forecaster.fitted, place, forecaster.costs).draft_collectives
        for place in (at, replace(at, draft_tp=other.size))
    ]
    here = (counts[0] or _collectives(other.here), other.before.compute, other.before.wire)
    there = (counts[1] or _collectives(other.there), other.draft.compute, other.draft.wire)
    large, small = (here, there) if measured > other.size else (there, here)
    each_large = float(large[2][0]) / large[0] if large[0] else 0.0
    each_small = float(small[2][0]) / small[0] if small[0] else 0.0
    count = large[0] - (small[0] * each_small / each_large if each_large > 0 else 0.0)
    if count <= 0:
        return None
    times: Vector = (small[1] - large[1]) / count
    low, high = (float(end) for end in np.quantile(times[1:], [0.05, 0.95]))
    value = float(times[0])
    return Interval(value=value, lo=min(low, value), hi=max(high, value))
