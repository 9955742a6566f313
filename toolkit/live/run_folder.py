"""Writing one captured run as a run folder: all of it or none of it appears under its name."""

from __future__ import annotations

import datetime
import gzip
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit import __version__
from toolkit.errors import BadInputError
from toolkit.ingest.client import write_client
from toolkit.ingest.run_json import write_run_info
from toolkit.ingest.spans import write_spans
from toolkit.live.capture import Captured
from toolkit.live.confidence import throughput
from toolkit.live.gpu import clock_summary, gpu_lines
from toolkit.live.model_config import model_shape
from toolkit.live.target import Target
from toolkit.schema.profile import Load
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans


def write_run(
    out: Path, target: Target, found: Captured, how: dict[str, Any], *, show_context: bool, overwrite: bool
) -> Path:
    """Write a run folder below `out` and return it; BadInputError if it cannot be written.

    `how` is added to what run.json says under `captured`. An existing folder is kept, and the new one
    numbered, unless `overwrite`.
    """
    info = run_info(target, found, how)
    folder = free_folder(out / run_name(info, found.load, show_context=show_context), overwrite=overwrite)
    partial = out / f".{folder.name}.partial-{os.getpid()}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write_files(partial, target, found, info)
        if folder.is_symlink():
            folder.unlink()  # what it leads to belongs to another place
        elif folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        spare = _written_elsewhere(folder.name, target, found, info)
        kept = f" (what was captured is kept in {spare})" if spare else ""
        raise BadInputError(
            f"{folder} cannot be written ({error.strerror or error}); name another place with -o{kept}"
        ) from None
    return folder


def _written_elsewhere(name: str, target: Target, found: Captured, info: RunInfo) -> Path | None:
    """Write the run among temporary files, so that it is not lost; None where that fails as well."""
    above: str | None = None
    try:
        above = tempfile.mkdtemp(prefix="toolkit-run-")
        folder = Path(above, name)
        folder.mkdir()
        _write_files(folder, target, found, info)
    except OSError:
        if above:
            shutil.rmtree(above, ignore_errors=True)
        return None
    return folder


def require_place(out: Path) -> None:
    """Raise BadInputError where no run folder can be made below `out`, before any load is sent for one."""
    try:
        there = next((path for path in (out, *out.absolute().parents) if path.exists()), Path("/"))
    except OSError as error:  # too long a name, for one
        raise BadInputError(f"no run can be written to {out} ({error.strerror}); give another -o") from None
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    why = "may not be written" if there.is_dir() else "is no folder"
    raise BadInputError(f"no run can be written to {out}: {there} {why}; name another place with -o")


def _write_files(folder: Path, target: Target, found: Captured, info: RunInfo) -> None:
    for rank in found.recorded.spans:
        if rank.cycles:
            write_spans(folder / f"spans-TP-{rank.tp_rank}.jsonl.gz", rank)
    for number, path in sorted(found.traces.items()):
        content = path.read_bytes()
        packed = content if content[:2] == b"\x1f\x8b" else gzip.compress(content, mtime=0)
        (folder / f"trace-TP-{number}.trace.json.gz").write_bytes(packed)
    if found.log_lines:
        (folder / "server.log").write_text("\n".join(found.log_lines) + "\n", encoding="utf-8")
    if found.client and found.client.repeats:
        write_client(folder / "client.json", found.client)
    if found.gpu_samples:
        (folder / "gpu.jsonl").write_text(gpu_lines(found.gpu_samples, target.gpu_names()), encoding="utf-8")
    write_run_info(folder / "run.json", info)


def run_info(target: Target, found: Captured, how: dict[str, Any]) -> RunInfo:
    """Return the facts of the run: the server's, corrected by what its cycles showed."""
    info, load, spans = target.info, found.load, found.recorded.spans
    steps = _single(spans, "num_steps", info.num_steps)
    # plain decoding has no width to tell: its cycles may leave it out
    width = 1 if steps == 0 else _single(spans, "num_draft_tokens", info.num_draft_tokens)
    return replace(
        info,
        num_steps=steps,
        num_draft_tokens=width,
        acceptance=None if steps == 0 else info.acceptance,
        batch_size=load.batch_size if load else _single(spans, "batch_size", None),
        context_tokens=_context(load, spans),
        temperature=load.temperature if load else None,
        with_stack=False if found.traces else None,
        captured={**_captured(target, found), **how},
        clocks=_clocks(target, found),
        overhead=found.overhead,
    )


def _single(spans: Iterable[RankSpans], name: str, told: int | None) -> int | None:
    """Return the one value of all cycles; what was told where they say nothing; None where they differ."""
    seen = {getattr(cycle, name) for rank in spans for cycle in rank.cycles} - {None}
    if not seen:
        return told
    return int(seen.pop()) if len(seen) == 1 else None


def _context(load: Load | None, spans: tuple[RankSpans, ...]) -> int | None:
    """Return the mean context of a request over the run: as the cycles saw it, else as it was driven."""
    seen = [
        cycle.context_tokens for rank in spans for cycle in rank.cycles if cycle.context_tokens is not None
    ]
    if seen:
        return round(sum(seen) / len(seen))
    if load and load.prompt_tokens is not None:
        return load.prompt_tokens + load.output_tokens // 2
    return None


def _captured(target: Target, found: Captured) -> dict[str, Any]:
    rate = throughput(found.client.repeats) if found.client else None
    status = dict(target.statuses[0]) if target.statuses else {}
    started = target.server.started_s
    facts: dict[str, Any] = {
        "complete": found.complete,
        "ended_early": found.failure or ("interrupted" if found.interrupted else None),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "toolkit": __version__,
        "seconds": round(found.seconds, 3),
        "ranks": len(target.server.rank_pids),
        "server_started": _utc(started) if started else None,
        "throughput_tok_s": {"value": rate.value, "lo": rate.lo, "hi": rate.hi} if rate else None,
        "probe": {key: status[key] for key in ("mode", "hooks", "in_graph", "torch") if key in status}
        or None,
        "model_shape": model_shape(target.server, target.flags),
        "excluded_windows": found.excluded,
        "warnings": found.warnings,
        "gpus": target.gpus,
    }
    return {key: value for key, value in facts.items() if value not in (None, [], {})}


def _utc(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")


def _clocks(target: Target, found: Captured) -> dict[str, Any]:
    clocks: dict[str, Any] = {}
    if found.recorded.spans:
        clocks["spans"] = "host monotonic clock of one host, ns: common to its ranks"
    if found.gpu_samples:
        clocks["gpu"] = {"clock": "host monotonic, ns", **clock_summary(found.gpu_samples)}
    elif target.nvml.why_not:
        clocks["gpu"] = target.nvml.why_not
    return clocks


def run_name(info: RunInfo, load: Load | None, *, show_context: bool) -> str:
    """Return <date>-<engine>-<model>-tp<n>-k<K>-b<B>, then what else sets the runs of a profile apart."""
    model = (
        re.sub(r"[^a-z0-9.]+", "-", (info.model or "model").lower().rpartition("/")[2]).strip("-.") or "model"
    )
    parts = [
        datetime.date.today().isoformat(),
        info.engine or "server",
        model[:40],
        f"tp{info.tp_size or 1}",
        "kauto" if info.num_steps is None else f"k{info.num_steps}",
        "bmixed" if info.batch_size is None else f"b{info.batch_size}",
    ]
    if show_context and load and load.prompt_tokens is not None:
        parts.append(f"c{load.prompt_tokens}")
    if load and load.temperature:
        parts.append(f"t{load.temperature:g}")
    return "-".join(parts)


def free_folder(folder: Path, *, overwrite: bool) -> Path:
    """Return the folder, or the first numbered one that is free."""
    number = 2
    free = folder
    while free.exists() and not overwrite:
        free = folder.with_name(f"{folder.name}-{number}")
        number += 1
    return free
