"""Plain decoding beside speculation: on the same server where it can switch, else by which restart."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError
from toolkit.ingest.run_json import read_run_info
from toolkit.live.command_flags import masked_command
from toolkit.live.proc import inner_path
from toolkit.live.server import Server
from toolkit.schema.profile import Load
from toolkit.schema.run import RunInfo

_OLD_S = 24 * 3600.0


def baseline_loads(server: Server, flags: Mapping[str, Any], loads: Sequence[Load]) -> tuple[Load, ...]:
    """Return the loads at which the server decodes plainly, in a batch size tier of 0 steps; () if none."""
    tiers = plain_tiers(server, flags)
    if not tiers:
        return ()
    found = []
    for load in loads:
        first, last = next(((a, b) for a, b in tiers if a <= load.batch_size <= b), tiers[0])
        batch = min(max(load.batch_size, first), last)
        found.append(replace(load, batch_size=batch, plain=True))
    return tuple(dict.fromkeys(found))


def plain_tiers(server: Server, flags: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the ranges of batch sizes, ends included, at which the server takes 0 steps."""
    if server.engine == "vllm":
        config = flags.get("speculative_config")
        ranges = config.get("num_speculative_tokens_per_batch_size") if isinstance(config, dict) else None
        return [(int(a), int(b)) for a, b, steps in ranges or () if steps == 0]
    if server.engine != "sglang" or not flags.get("speculative_adaptive"):
        return []
    tiers = _adaptive_tiers(server, flags.get("speculative_adaptive_config"))
    starts = sorted(tiers)
    ends = [*(start - 1 for start in starts[1:]), 1 << 20]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if tiers[start] == [0]]


def _adaptive_tiers(server: Server, config: Any) -> dict[int, Any]:
    """Return the candidates of each tier in SGLang's adaptive file; {} where it cannot be read."""
    if not isinstance(config, str):
        return {}
    try:
        tree = json.loads(inner_path(server.pid, config).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = tree.items() if isinstance(tree, dict) else ()
    return {int(k): v.get("candidate_steps") for k, v in entries if k.isdigit() and isinstance(v, dict)}


def restart_for_baseline(server: Server) -> str:
    """Return the sentence that says how to start the server so that it decodes plainly."""
    words = list(server.command)
    if server.engine == "reference":
        plain = [*words, "--plain"]
    else:
        plain = _without_flags(words, ("--speculative", "-sc"))
    return (
        "the server has no batch size at which it decodes plainly, so its baseline needs another start: "
        f"{masked_command(plain)}"
    )


def _without_flags(words: Sequence[str], prefixes: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    dropping = False
    for word in words:
        if word.startswith("-"):
            dropping = word.startswith(prefixes)
        if not dropping:
            kept.append(word)
    return kept


def stale_baseline(out: Path, server: Server, info: RunInfo) -> str | None:
    """Return a sentence if the newest baseline in `out` does not speak for the server as it runs now.

    Another version or GPU, or a day or more between it and the server's start: drivers, clocks and
    neighbours change.
    """
    found = [(folder, one) for folder, one in _runs(out) if one.num_steps == 0 and _same_server(one, info)]
    if not found or info.num_steps == 0:
        return None
    folder, newest = max(found, key=lambda pair: str(pair[1].captured.get("date", "")))
    for name in ("engine_version", "gpu"):
        was, now = getattr(newest, name), getattr(info, name)
        if was and now and was != now:
            return (
                f"the baseline {folder.name} was taken with {name} {was}, the server has {now}; take it again"
            )
    try:
        taken = datetime.datetime.fromisoformat(str(newest.captured.get("date"))).timestamp()
    except ValueError:
        return None
    if server.started_s and server.started_s - taken > _OLD_S:
        days = (server.started_s - taken) / _OLD_S
        return f"the baseline {folder.name} is {days:.0f} days older than the server's start; take it again"
    return None


def _runs(out: Path) -> list[tuple[Path, RunInfo]]:
    found = []
    for path in sorted(out.glob("*/run.json")):
        try:
            found.append((path.parent, read_run_info(path)))
        except BadInputError:
            continue
    return found


def _same_server(one: RunInfo, other: RunInfo) -> bool:
    return (one.engine, one.model, one.tp_size) == (other.engine, other.model, other.tp_size)
