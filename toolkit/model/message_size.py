"""Wire time of a collective by the size of its message, where it was measured at two sizes or more.

A message holds one hidden state for each token of a forward, so tokens stand for bytes. Between two sizes
wire time is straight; beyond the largest it goes on with the last slope of one algorithm, and nobody knows
when the next algorithm takes over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import log2

from toolkit.model.terms import Setting
from toolkit.schema.cost import CollectiveCost, SizedWire

_PER_DOUBLING = 0.5  # of the wire time, for each doubling of the message beyond the largest measured


def message_tokens(phase: str, at: Setting) -> int:
    """Return the tokens of a forward whose states one collective carries."""
    if phase == "decode":
        return at.batch_size
    return at.batch_size * (at.topk if phase == "draft" else at.num_draft_tokens)


def wire_at(cost: CollectiveCost, tokens: int) -> float:
    """Return the wire time of a collective of that many tokens, in us: the pooled one without sizes."""
    sizes = cost.by_tokens
    if len(sizes) < 2:
        return cost.wire_us
    place = bisect_left([size.tokens for size in sizes], tokens)
    if place == 0:
        return sizes[0].wire_us
    below = sizes[place - 1]
    if place == len(sizes):
        return below.wire_us + _last_slope(sizes) * (tokens - below.tokens)
    above = sizes[place]
    share = (tokens - below.tokens) / (above.tokens - below.tokens)
    return below.wire_us + share * (above.wire_us - below.wire_us)


def doubt_us(cost: CollectiveCost, tokens: int) -> float:
    """Return how far off that time may be, in us: beyond the sizes measured, and where algorithms change."""
    sizes = cost.by_tokens
    if len(sizes) < 2 or tokens <= sizes[0].tokens:
        return 0.0
    if tokens > sizes[-1].tokens:
        return _PER_DOUBLING * log2(tokens / sizes[-1].tokens) * sizes[-1].wire_us
    place = bisect_left([size.tokens for size in sizes], tokens)
    below, above = sizes[place - 1], sizes[place]
    changes = below.algorithm != above.algorithm and tokens < above.tokens
    return abs(above.wire_us - below.wire_us) / 2 if changes else 0.0


def _last_slope(sizes: Sequence[SizedWire]) -> float:
    """Return what one more token takes beyond the largest size: of the last two, if of one algorithm."""
    one, last = sizes[-2:]
    if one.algorithm != last.algorithm:
        return 0.0
    return max((last.wire_us - one.wire_us) / (last.tokens - one.tokens), 0.0)
