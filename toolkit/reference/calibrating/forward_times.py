"""Single forwards of a shard: without their collectives on any device, with them where the ranks suffice."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from toolkit.reference.calibrating.exchanging import counted, left_out, reduced_by
from toolkit.reference.calibrating.lanes import Host, Lane
from toolkit.reference.calibrating.settings import Settings
from toolkit.reference.calibrating.shards import Job, Shard
from toolkit.reference.calibrating.timing import latency, nothing, timings_us
from toolkit.reference.collectives import Group
from toolkit.reference.errors import SettingError
from toolkit.reference.graphs import Graphs
from toolkit.reference.one_shot import OneShot, why_not

_CACHE_BYTES = 256 * 1024 * 1024  # above the L2 of any GPU so far
_PARTS = ("draft", "target")

Ways = dict[str, Callable[[], AbstractContextManager[Any]]]


def forward_times(host: Host, settings: Settings, skipped: list[str]) -> list[dict[str, Any]]:
    """Return the times of every forward at every tensor-parallel size; all ranks must call it."""
    found = []
    evict = _evicting(host.device)
    for size in settings.tp_sizes:
        lane = host.lane(size)
        ways = _ways(host, lane, size)
        for part in _PARTS:
            host.say(f"{part} forwards at tensor-parallel size {size}")
            shard, why = _built(host, lane, size, part, settings)
            reasons = [reason for reason in host.share(why) if reason]
            if reasons:
                skipped.append(f"{part} forwards at tensor-parallel size {size}: {reasons[0]}")
            elif shard:
                mine = [row for job in shard.jobs() for row in _rows(shard, job, lane, ways, settings, evict)]
                found += _joined(host.share(mine)[: size if size <= host.ranks else 1], settings, size)
            else:
                host.share([])
            del shard
            _free(host.device)
    return found


def _evicting(device: torch.device) -> Callable[[], Any]:
    """Return what pushes a model's weights out of the cache, as the other model's do in a cycle.

    Reading does, and leaves nothing to be written back during what is timed.
    """
    if device.type == "cpu":
        return nothing
    filler = torch.zeros(_CACHE_BYTES // 4, device=device)
    read: Callable[[], Any] = filler.sum
    return read


def _ways(host: Host, lane: Lane | None, size: int) -> Ways:
    """Return how a forward's collectives are run, by name; all ranks must call it."""
    if size == 1 or size > host.ranks:
        return {}
    if host.device.type == "cpu":
        return {"star": nullcontext}
    one_shot = None
    if lane and why_not() is None:
        try:
            one_shot = OneShot(lane.handle, lane.device)
        except Exception:  # said by the collectives already
            one_shot = None
    usable = all(host.share(lane is None or one_shot is not None))
    ways: Ways = {"nccl": nullcontext}
    if usable and why_not() is None:
        ways["one_shot"] = partial(reduced_by, one_shot) if one_shot else nullcontext
    return ways


def _built(
    host: Host, lane: Lane | None, size: int, part: str, settings: Settings
) -> tuple[Shard | None, str | None]:
    """Return this rank's shard, or why there is none; a single rank builds what the host is too small for."""
    if lane is None and not (host.rank == 0 and size > host.ranks):
        return None, None
    try:
        _require_split(part, size, settings)
        group = Group(host.rank, size, lane.handle if lane else None)
        return Shard(part, settings, group, host.device), None
    except SettingError as error:
        return None, str(error)
    except torch.OutOfMemoryError:
        return None, f"rank {host.rank} has too little memory for it"


def _require_split(part: str, size: int, settings: Settings) -> None:
    engine = settings.engine
    if part == "target":
        engine.target.require_split(size, "--tp")
    elif engine.draft:
        dataclasses.replace(engine.draft, vocab=engine.draft_vocab).require_split(size, "--draft-tp")


def _rows(
    shard: Shard, job: Job, lane: Lane | None, ways: Ways, settings: Settings, evict: Callable[[], Any]
) -> Iterator[dict[str, Any]]:
    """Yield one rank's timings of a pass: one row for each way to run its collectives."""
    align = lane.align if lane else nothing
    with left_out():
        compute = _timed(job, settings, align, evict)
        with counted() as seen:
            Graphs(job.passes, (job.batch_size,), ()).run(job.phase, job.batch_size, job.context)
    base = {
        "kind": job.kind,
        "batch_size": job.batch_size,
        "num_tokens": job.num_tokens,
        "compute": compute,
        **_counts(seen, job.forwards),
        "weight_bytes": shard.weight_bytes,
        # a single rank has no collectives to leave out
        "total": compute if lane and lane.size == 1 else None,
        "algorithm": None,
    }
    if not ways:
        yield base
    for name, way in ways.items():
        with way():
            yield {**base, "total": _timed(job, settings, align, evict), "algorithm": name}


def _timed(job: Job, settings: Settings, align: Callable[[], Any], evict: Callable[[], Any]) -> list[float]:
    """Return the duration of one forward of a pass, from a graph on a GPU, for each repeat."""
    graphs = Graphs(job.passes, (job.batch_size,), (job.context,))
    device = job.passes.state.root.device
    if device.type == "cuda":
        graphs.capture(job.phase, job.batch_size, job.context)
    run = partial(graphs.run, job.phase, job.batch_size, job.context)
    (times,) = timings_us([run], device, settings.repeats, align, evict)
    return [spent / job.forwards for spent in times]


def _counts(seen: list[tuple[str, int]], forwards: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in ("all_reduce", "all_gather"):
        sizes = [size for name, size in seen if name == op]
        found[f"{op}s"] = len(sizes) // forwards
        found[f"{op}_bytes"] = max(sizes, default=0)
    return found


def _joined(ranks: list[list[dict[str, Any]]], settings: Settings, size: int) -> list[dict[str, Any]]:
    """Return the records of one size from what each rank of its group timed."""
    records = []
    for place, first in enumerate(ranks[0]):
        row = dict(first)
        total, of_ranks = row.pop("total"), [rank[place] for rank in ranks]
        del row["compute"]
        records.append(
            {
                **row,
                "tp_size": size,
                "context_tokens": settings.context,
                "compute_us": latency([one["compute"] for one in of_ranks]),
                "total_us": latency([one["total"] for one in of_ranks]) if total else None,
                "in_graph": settings.engine.device == "cuda",
            }
        )
    return records


def _free(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
