"""Context lengths in bins, so that a request that grows while it is measured stays one configuration."""

from __future__ import annotations

from collections.abc import Sequence

_FIRST_EDGE_TOKENS = 1024  # a request of a prompt and a few hundred tokens stays in one bin
_RATIO = 4


def context_bin(context_tokens: int | None) -> int | None:
    """Return the bin of a context: 0 up to 1024 tokens, then one bin for every factor of four."""
    if context_tokens is None:
        return None
    edge, number = _FIRST_EDGE_TOKENS, 0
    while context_tokens > edge:
        edge, number = edge * _RATIO, number + 1
    return number


def mean_context(contexts: Sequence[int | None]) -> int | None:
    """Return the mean of the contexts that are known, None if none is."""
    known = [context for context in contexts if context is not None]
    return round(sum(known) / len(known)) if known else None
