"""What one more collective costs: chains of them in graphs, long less short, all ranks in step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from toolkit.reference.calibrating.algorithms import Algorithm, plain_algorithms, symmetric_algorithms
from toolkit.reference.calibrating.engine_algorithms import ENGINE_CLASSES, engine_algorithm, installed
from toolkit.reference.calibrating.lanes import Host, Lane
from toolkit.reference.calibrating.settings import Settings
from toolkit.reference.calibrating.timing import Work, captured, latency, timings_us
from toolkit.reference.one_shot import why_not

_LONG, _SHORT = 32, 8  # collectives of the two chains
_CAPTURES = 4  # of each: NCCL takes 9 or 14 us for one size, and keeps to it within a capture


def collective_times(host: Host, settings: Settings, skipped: list[str]) -> list[dict[str, Any]]:
    """Return the latencies of every group, algorithm and size; all ranks must call it."""
    found = []
    for size in settings.tp_sizes:
        if size == 1:
            continue
        if size > host.ranks:
            skipped.append(f"collectives of {size} ranks: this host has {host.ranks}")
            continue
        lane = host.lane(size)
        for name, offer in _offers(host, lane, settings, skipped):
            host.say(f"collectives: {name}, {size} ranks")
            algorithms, why = _made(lane, offer)
            reasons = [reason for reason in host.share(why) if reason]
            if reasons:
                skipped.append(f"{name} all-reduce of {size} ranks: {reasons[0]}")
                continue
            mine = [_row(lane, one, settings) for one in algorithms] if lane else []
            found += _joined(host.share(mine)[:size], size, host.device.type == "cuda")
    return found


Offer = Callable[[Lane], Iterator[Algorithm]]


def _offers(
    host: Host, lane: Lane | None, settings: Settings, skipped: list[str]
) -> Iterator[tuple[str, Offer]]:
    """Yield the kinds of algorithms to try, the same on all ranks."""
    if host.device.type == "cpu":
        yield "star", plain_algorithms
        return
    yield "nccl", plain_algorithms
    missing = why_not()
    if missing:
        skipped.append(f"one_shot and two_shot all-reduce: {missing}")
    else:
        yield "symmetric memory", partial(symmetric_algorithms, max(settings.message_bytes))
    for engine in ENGINE_CLASSES:
        if installed(engine):
            yield engine.name, partial(engine_algorithm, engine)
        else:
            skipped.append(f"{engine.name} all-reduce: {engine.package} is not installed")


def _made(lane: Lane | None, offer: Offer) -> tuple[list[Algorithm], str | None]:
    """Return the algorithms, or why there are none: an engine may raise whatever it likes."""
    if lane is None:
        return [], None
    try:
        return list(offer(lane)), None
    except Exception as error:
        first = (str(error).strip() or "no reason given").splitlines()[0]
        return [], f"{type(error).__name__}: {first}"


def _row(lane: Lane, algorithm: Algorithm, settings: Settings) -> dict[str, Any]:
    """Return one rank's latencies of an algorithm by size of message."""
    times = {
        str(size): _chain_us(lane, algorithm, size, settings.repeats)
        for size in settings.message_bytes
        if algorithm.takes(size)
    }
    return {"op": algorithm.op, "name": algorithm.name, "times": times}


def _chain_us(lane: Lane, algorithm: Algorithm, size: int, repeats: int) -> dict[str, list[float]]:
    one = algorithm.prepared(size)
    chains = [
        captured(_chained(one, count), lane.device, algorithm.capturing)
        for _ in range(_CAPTURES)
        for count in (_LONG, _SHORT)
    ]
    times = timings_us(chains, lane.device, -(-repeats // _CAPTURES), lane.align)
    return {"long": list(chain(*times[0::2])), "short": list(chain(*times[1::2]))}


def _chained(one: Work, count: int) -> Work:
    def run() -> None:
        for _ in range(count):
            one()

    return run


def _joined(ranks: list[list[dict[str, Any]]], size: int, in_graph: bool) -> list[dict[str, Any]]:
    """Return the records of a group from what each of its ranks timed."""
    records = []
    for place, first in enumerate(ranks[0]):
        for message in first["times"]:
            of_ranks = [rank[place]["times"][message] for rank in ranks]
            long, short = (
                [max(times) for times in zip(*(one[which] for one in of_ranks), strict=True)]
                for which in ("long", "short")
            )
            each = [(a - b) / (_LONG - _SHORT) for a, b in zip(long, short, strict=True)]
            if min(each) <= 0:  # a timing was disturbed by more than the longer chain adds
                each = [spent / _LONG for spent in long]
            records.append(
                {
                    "op": first["op"],
                    "algorithm": first["name"],
                    "group_size": size,
                    "message_bytes": int(message),
                    "latency_us": latency([each]),
                    "in_graph": in_graph,
                }
            )
    return records
