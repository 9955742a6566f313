"""Draft forwards and collectives of a calibration, at any batch, token count, context and group size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log2

import numpy as np

from toolkit.model.terms import Setting
from toolkit.schema.calibration import CollectiveLatency, ForwardTime, Latency
from toolkit.schema.cost import HostCalibration

_DECILES_APART = 2.563  # standard deviations between the 10th and the 90th percentile
# collectives of a trace, by how their kernels' names begin: what calibrations call them
_CALLED = {
    "nccl": ("nccl",),
    "one_shot": ("one_shot", "sglang_custom", "vllm_custom"),
    "fused_one_shot": ("one_shot", "sglang_custom", "vllm_custom"),
    "two_shot": ("two_shot", "sglang_custom", "vllm_custom"),
    "fused_two_shot": ("two_shot", "sglang_custom", "vllm_custom"),
    "cross_device": ("sglang_custom", "vllm_custom"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedForward:
    """One forward of a rank's shard, in us, and its collectives.

    `totals` hold the collectives, by algorithm; `spread` is a relative standard deviation; `beyond` counts
    doublings of tokens or context outside what was measured.
    """

    compute_us: float
    spread: float
    totals: Mapping[str, float]
    all_reduces: int
    all_reduce_bytes: float
    all_gathers: int
    all_gather_bytes: float
    weight_bytes: int
    beyond: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedDraft:
    """The draft's forwards of one cycle at one TP, in us: K-1 steps and the extend."""

    compute_us: float
    spread: float
    wires_us: Mapping[str, float]  # by all-reduce algorithm; at TP 1 nothing is exchanged
    all_reduces: int
    all_gathers: int
    weight_bytes: int
    beyond: float

    @property
    def collectives(self) -> int:
        """Of one cycle."""
        return self.all_reduces + self.all_gathers


def draft_at(calibration: HostCalibration, tp_size: int, at: Setting) -> CalibratedDraft | None:
    """Return the draft of a cycle at a TP size; None where a forward it needs was not measured."""
    extend = forward_at(calibration, "draft_extend", tp_size, at.batch_size * (at.num_steps + 1), at)
    parts = [(1, extend)]
    if at.num_steps > 1:
        step = forward_at(calibration, "draft_step", tp_size, at.batch_size * at.topk, at)
        parts.append((at.num_steps - 1, step))
    forwards = [(count, forward) for count, forward in parts if forward is not None]
    if len(forwards) < len(parts):
        return None
    compute = sum(count * forward.compute_us for count, forward in forwards)
    return CalibratedDraft(
        compute_us=compute,
        spread=sum(count * forward.compute_us * forward.spread for count, forward in forwards) / compute,
        wires_us=_wires(calibration, tp_size, forwards),
        all_reduces=sum(count * forward.all_reduces for count, forward in forwards),
        all_gathers=sum(count * forward.all_gathers for count, forward in forwards),
        weight_bytes=max(forward.weight_bytes for _, forward in forwards),
        beyond=max(forward.beyond for _, forward in forwards),
    )


def _wires(
    calibration: HostCalibration, tp_size: int, forwards: Iterable[tuple[int, CalibratedForward]]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for algorithm in all_reduce_algorithms(calibration, tp_size):
        times = [
            None if wire is None else count * wire
            for count, forward in forwards
            for wire in [wire_us(calibration, algorithm, tp_size, forward)]
        ]
        known = [time for time in times if time is not None]
        if len(known) == len(times):
            found[algorithm] = sum(known)
    return found


def forward_at(
    calibration: HostCalibration, kind: str, tp_size: int, tokens: int, at: Setting
) -> CalibratedForward | None:
    """Return a forward of `tokens` in the whole batch; None where none of its kind and TP was measured."""
    found = [one for one in calibration.forwards if (one.kind, one.tp_size) == (kind, tp_size)]
    found = [one for one in found if one.in_graph] or found
    if not found:
        return None
    contexts = sorted(one.context_tokens for one in found)
    context = at.context_tokens or contexts[len(contexts) // 2]
    ends = [one.batch_size * one.num_tokens for one in found]
    place = (tokens, context)
    compute = _between(found, place, lambda one: one.compute_us.median)
    named = dict.fromkeys(one.algorithm for one in found if one.algorithm and one.total_us)
    totals = {
        name: _between([one for one in found if one.algorithm == name and one.total_us], place, _total)
        for name in named
    }
    inside = min(max(tokens, min(ends)), max(ends))
    nearest = min(found, key=lambda one: abs(log2(one.batch_size * one.num_tokens / tokens)))
    return CalibratedForward(
        compute_us=compute,
        spread=_between(found, place, lambda one: _spread(one.compute_us)),
        totals=totals,
        all_reduces=nearest.all_reduces,
        all_reduce_bytes=_between(found, place, lambda one: one.all_reduce_bytes) * tokens / inside,
        all_gathers=nearest.all_gathers,
        all_gather_bytes=_between(found, place, lambda one: one.all_gather_bytes) * tokens / inside,
        weight_bytes=nearest.weight_bytes,
        beyond=abs(log2(tokens / inside)) + _beyond_context(context, contexts),
    )


def _beyond_context(context: int, contexts: Sequence[int]) -> float:
    """Return doublings outside the contexts; a context of up to twice the longest is as good as it."""
    longest, shortest = max(contexts[-1], 1), max(contexts[0], 1)
    return max(log2(context / longest) - 1, log2(shortest / context) - 1, 0.0)


def _total(one: ForwardTime) -> float:
    return one.total_us.median if one.total_us else one.compute_us.median


def _spread(latency: Latency) -> float:
    """Return the relative standard deviation of repeats."""
    return max(log(latency.p90 / latency.p10), 0.0) / _DECILES_APART


def _between(
    found: Sequence[ForwardTime], place: tuple[int, int], value: Callable[[ForwardTime], float]
) -> float:
    """Return a value between those measured: straight lines in tokens, then in context."""
    lines: dict[int, dict[int, list[float]]] = {}
    for one in found:
        line = lines.setdefault(one.context_tokens, {})
        line.setdefault(one.batch_size * one.num_tokens, []).append(float(value(one)))
    contexts = sorted(lines)
    tokens, context = place
    values = []
    for each in contexts:
        line = lines[each]
        ends = sorted(line)
        values.append(float(np.interp(tokens, ends, [float(np.mean(line[end])) for end in ends])))
    return float(np.interp(context, contexts, values))


def all_reduce_algorithms(calibration: HostCalibration, group_size: int) -> tuple[str, ...]:
    """Return the algorithms whose all-reduce was measured at a group size, alone or inside forwards."""
    named = [
        one.algorithm
        for one in calibration.collectives
        if one.op == "all_reduce" and one.group_size == group_size
    ]
    named += [
        one.algorithm
        for one in calibration.forwards
        if one.tp_size == group_size and one.algorithm and one.total_us
    ]
    return tuple(dict.fromkeys(named))


def wire_us(
    calibration: HostCalibration, algorithm: str, group_size: int, forward: CalibratedForward
) -> float | None:
    """Return the collectives of one forward: as they lengthened it, else by their latencies; None if unknown.

    Where an algorithm has no all-gather, NCCL's stands in, else the shortest.
    """
    if algorithm in forward.totals:
        return max(forward.totals[algorithm] - forward.compute_us, 0.0)
    reduce = latency_us(calibration, "all_reduce", algorithm, group_size, forward.all_reduce_bytes)
    if reduce is None and forward.all_reduces:
        return None
    gathers = [
        algorithm,
        "nccl",
        *(one.algorithm for one in calibration.collectives if one.op == "all_gather"),
    ]
    times = [
        latency_us(calibration, "all_gather", one, group_size, forward.all_gather_bytes) for one in gathers
    ]
    gather = next((time for time in times if time is not None), reduce)
    return forward.all_reduces * (reduce or 0.0) + forward.all_gathers * (gather or 0.0)


def latency_us(
    calibration: HostCalibration, op: str, algorithm: str, group_size: int, message_bytes: float
) -> float | None:
    """Return the latency of a collective: between sizes in logs, beyond the largest in proportion."""
    found = [
        one
        for one in calibration.collectives
        if (one.op, one.algorithm, one.group_size) == (op, algorithm, group_size)
    ]
    found = [one for one in found if one.in_graph] or found
    if not found:
        return None
    found.sort(key=_size)
    sizes = [log(_size(one)) for one in found]
    logs = [log(one.latency_us.median) for one in found]
    asked = log(max(message_bytes, 1.0))
    return float(np.exp(np.interp(asked, sizes, logs) + max(asked - sizes[-1], 0.0)))


def _size(one: CollectiveLatency) -> int:
    return max(one.message_bytes, 1)


def named_algorithms(algorithm: str | None, among: Iterable[str]) -> tuple[str, ...]:
    """Return those of a calibration's algorithms that a trace's name can be; all where it says nothing."""
    among = tuple(among)
    if algorithm is None:
        return among
    called = next((names for begin, names in _CALLED.items() if algorithm.startswith(begin)), ())
    return tuple(name for name in among if name in called) or among
