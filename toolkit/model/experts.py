"""Mixture-of-experts models: how many experts a verify forward touches, and which models have them.

A forward of n tokens reads the weights of the experts that any of them goes to:
E (1 - (1 - k/E)^(n^rho)) of E, with k a token. rho is below 1 because tokens of one text go to the same ones.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ALIKE = 0.75  # rho: 0.74 to 0.79 fitted to real routing; 1 would be routing by chance
_SHARE = 0.8  # of what one more step costs: the target's experts; the rest is the draft's forward
_STEEPEST, _FLAT = 0.5, 0.9  # shares of the experts touched: beyond, the experts hardly cost more
_FIRST, _LAST = 2, 9  # verify widths of 1 and 8 draft steps, between which a straight line is bent


class Experts(NamedTuple):
    """Routed experts of a layer, and those that one token goes to."""

    total: int
    active: int


# From the models' own config.json (num_experts or n_routed_experts, num_experts_per_tok), newest names first.
_MODELS = (
    (r"qwen3-next", Experts(512, 10)),
    (r"qwen3-coder-480b", Experts(160, 8)),
    (r"qwen3\.\d.*-a\d+b", Experts(256, 8)),
    (r"qwen3.*-a\d+b", Experts(128, 8)),
    (r"kimi-?k2", Experts(384, 8)),
    (r"deepseek-?(?:v3|r1)", Experts(256, 8)),
    (r"ling-flash", Experts(256, 8)),
    (r"gpt-oss-120b", Experts(128, 4)),
    (r"gpt-oss-20b", Experts(32, 4)),
    (r"glm-4\.5-air", Experts(128, 8)),
    (r"glm-4\.[567](?!.*(?:9b|flash))", Experts(160, 8)),
    (r"minimax-m2", Experts(256, 8)),
    (r"llama-4-scout", Experts(16, 1)),
    (r"llama-4-maverick", Experts(128, 1)),
    (r"mixtral", Experts(8, 2)),
    (r"-a\d+(?:\.\d+)?b", Experts(128, 8)),
)


def experts_of(model: str | None) -> Experts | None:
    """Return the experts of a model by its name; None for a dense or an unknown one."""
    name = (model or "").lower()
    return next((experts for pattern, experts in _MODELS if re.search(pattern, name)), None)


def touched(experts: Experts, tokens: float) -> float:
    """Return the experts of a layer that a forward of that many tokens reads."""
    share = experts.active / experts.total
    return float(experts.total * (1 - (1 - share) ** (tokens**_ALIKE)))


def bent(experts: Experts, width: int, batch_size: int) -> float:
    """Return a verify width as its cost grows: equal to `width` at 2 and 9, above it between, below beyond.

    For data that know the cycle alone: of what one more step costs there, the part of the target's experts
    grows with those that are touched, and the draft's with the steps. Where nearly all experts are touched,
    their part grows with the tokens, as in a dense model.
    """
    low, here, high = (touched(experts, batch_size * one) for one in (_FIRST, width, _LAST))
    seen = low / experts.total
    share = _SHARE * min(max((_FLAT - seen) / (_FLAT - _STEEPEST), 0.0), 1.0)
    grown = (here - low) / (high - low) * (_LAST - _FIRST) if high > low else width - _FIRST
    return _FIRST + (1 - share) * (width - _FIRST) + share * grown
