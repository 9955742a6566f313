"""Which rank of which engine this process is, as `status` tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Roles(NamedTuple):
    """The roles that a server's cycle needs, and for a role that cannot be hooked, why."""

    needed: tuple[str, ...]
    refused: dict[str, str]


@dataclass(frozen=True)
class Rank:
    """Ranks, and two questions that are asked when a profiler asks: settings, and the hooks that matter."""

    tp_rank: int
    dp_rank: int
    pp_rank: int
    arguments: Callable[[], dict[str, Any]]
    roles: Callable[[], Roles]
