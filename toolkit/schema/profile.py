"""What `toolkit profile` found, could do and wrote (toolkit.profile/1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolkit.schema.run import RunInfo

PROFILE_SCHEMA = "toolkit.profile/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load to drive: `batch_size` requests at once, each of `prompt_tokens` and `output_tokens`.

    `prompt_tokens` is None where prompts are texts from a file.
    """

    batch_size: int = 1
    output_tokens: int = 512
    prompt_tokens: int | None = None
    temperature: float = 0.0
    plain: bool = False  # drives the server where it decodes without speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of looking at the server, and what it would need where it cannot be used."""

    name: str  # "probe", "engine profiler", "log and metrics", "on-demand trace"
    usable: bool
    why: str
    needs: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """What runs behind the process id that was given."""

    pid: int
    engine: str
    engine_version: str | None
    port: int | None
    rank_pids: tuple[int, ...]
    gpus: tuple[str, ...]
    command: str  # secrets masked
    log: str | None
    settings: RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 90 % interval."""

    value: float
    lo: float
    hi: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledRun:
    """One run folder that was written. `cycles` is the least over ranks.

    `more_requests`: how many more requests would tell a difference of 2 % between two such runs.
    """

    folder: str
    complete: bool
    load: Load | None
    ranks: int
    cycles: int
    dropped: int
    traces: int
    requests: int
    seconds: float
    tok_s: Estimate | None = None
    more_requests: int | None = None
    overhead: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """The object `profile --json` prints; a dry run has no runs."""

    schema: str = PROFILE_SCHEMA
    dry_run: bool
    server: FoundServer
    ways: tuple[Way, ...]
    used: str | None
    why_not_better: str | None
    loads: tuple[Load, ...] = ()
    runs: tuple[ProfiledRun, ...] = ()
    warnings: tuple[str, ...] = ()
