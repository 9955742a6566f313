"""Who ran: facts of one server from several files, and refusal where they are of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError
from toolkit.schema.log import ServerLog
from toolkit.schema.measurement import Measurement
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans
from toolkit.schema.trace import RankTrace

# facts of a server that cannot differ between the files of one run
_SERVER_FACTS = ("engine", "engine_version", "tp_size", "num_steps", "topk", "num_draft_tokens")
_TABLE_FACTS = ("engine", "engine_version", "model", "draft_model", "gpu", "tp_size", "draft_tp")


def require_one_server(
    where: Path,
    given: RunInfo,
    log: ServerLog | None,
    traces: Sequence[RankTrace],
    spans: Sequence[RankSpans] = (),
) -> None:
    """Raise BadInputError where run.json, log, traces and spans contradict each other on the server."""
    if log and log.server:
        for name in _SERVER_FACTS:
            said, logged = getattr(given, name), getattr(log.server, name)
            if said is not None and logged is not None and said != logged:
                raise BadInputError(
                    f"{where} mixes two servers: {name} is {said} in run.json and {logged} in "
                    f"{Path(log.source).name}; make a run folder for each"
                )
    for rank in spans:
        steps = {cycle.num_steps for cycle in rank.cycles} - {None}
        if given.num_steps is not None and steps and given.num_steps not in steps:
            raise BadInputError(
                f"{where} mixes two servers: num_steps is {given.num_steps} in run.json and "
                f"{min(step for step in steps if step is not None)} in {Path(rank.source).name}; "
                "make a run folder for each"
            )
    worlds = {trace.world_size: trace.source for trace in traces if trace.world_size}
    if len(worlds) > 1:
        named = ", ".join(f"{world} ranks in {source}" for world, source in sorted(worlds.items()))
        raise BadInputError(f"{where} mixes traces of two servers: {named}; make a run folder for each")
    _require_width(where, given, log, worlds)


def _require_width(where: Path, given: RunInfo, log: ServerLog | None, worlds: dict[int, str]) -> None:
    """A rank's world holds all tensor-parallel ranks, so it cannot be smaller than tp_size."""
    tp_size = given.tp_size or (log.server.tp_size if log and log.server else None)
    for world, source in worlds.items():
        if tp_size is not None and world < tp_size:
            raise BadInputError(
                f"{where} mixes two servers: {source} is of {world} ranks, the run of tp_size {tp_size}; "
                "make a run folder for each"
            )


def completed_info(given: RunInfo, log: ServerLog | None, rows: Sequence[Measurement]) -> RunInfo:
    """Return run.json's facts, what it leaves open taken from the log's start-up lines, then the table.

    A table lends a fact only if all its rows agree on it.
    """
    info = given
    if log:
        if log.server:
            info = _filled(info, log.server)
        engines = {line.engine for line in log.lines if line.engine and line.kind != "other"}
        if info.engine is None and len(engines) == 1:
            info = replace(info, engine=engines.pop())
    agreed: dict[str, Any] = {}
    for name in _TABLE_FACTS:
        values = {getattr(row, name) for row in rows}
        agreed[name] = values.pop() if len(values) == 1 else None
    return _filled(info, RunInfo(**agreed))


def _filled(info: RunInfo, other: RunInfo) -> RunInfo:
    """Return `info` with what it does not know taken from `other`."""
    open_facts: dict[str, Any] = {}
    for fact in fields(RunInfo):
        if getattr(info, fact.name) in (None, {}) and getattr(other, fact.name) not in (None, {}):
            open_facts[fact.name] = getattr(other, fact.name)
    return replace(info, **open_facts)
