"""A running server as it is found behind a process id."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Engine = Literal["sglang", "vllm", "reference", "pytorch"]
NAMES = {"sglang": "SGLang", "vllm": "vLLM", "reference": "the reference engine", "pytorch": "PyTorch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An engine's processes, and what its command line and environment say.

    `pid` is the process that was started, which may not be the one that was given. `environment` holds
    the variables of the start; it is never written anywhere.
    """

    pid: int
    engine: Engine
    version: str | None
    command: tuple[str, ...]
    flags: dict[str, Any]
    environment: dict[str, str]
    rank_pids: tuple[int, ...]
    uid: int
    host: str = "127.0.0.1"
    port: int | None = None
    listening: tuple[int, ...] = ()
    started_s: float | None = None  # wall clock
    log: Path | None = None
    libraries: frozenset[str] = field(default_factory=frozenset)  # of "torch", "hip", "cuda"
