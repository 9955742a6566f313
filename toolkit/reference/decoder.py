"""Decoder layers with a key-value cache; used by the target and by the draft.

A row of the batch is a row of the cache, so that a batch of n reads the first n rows without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from toolkit.reference.collectives import Group
from toolkit.reference.config import ModelConfig
from toolkit.reference.layers import ColumnParallel, Rotation, RowParallel, rms_norm, rotated
from toolkit.reference.weights import Weights

_CONTEXT_MULTIPLE = 8


def aligned(context: int) -> int:
    """Return how many cache positions to read so that a mask has the width fast attention kernels want."""
    return -(-context // _CONTEXT_MULTIPLE) * _CONTEXT_MULTIPLE


@dataclass(frozen=True, slots=True)
class Where:
    """Which tokens a forward computes: of rows `first_row` on, `position` [rows, tokens] each.

    `context`: how many positions of the cache are read; those behind a token's own are masked.
    """

    position: Tensor
    context: int
    first_row: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    """What all layers of one forward share."""

    rows: Tensor  # [rows, 1]: cache rows to write
    read: slice
    where: Where
    cosine: Tensor
    sine: Tensor
    mask: Tensor  # [rows, 1, query heads of a key-value head x tokens, context]: 0 or -inf


class Layer:
    """Attention and gated feed-forward of one decoder layer.

    Its cache is [keys or values, rows, capacity, heads, dim].
    """

    def __init__(
        self, name: str, config: ModelConfig, weights: Weights, group: Group, rows: int, capacity: int
    ) -> None:
        self.config = config
        dim, hidden = config.head_dim, config.hidden
        self.heads = config.heads // group.size
        self.kv_heads = max(1, config.kv_heads // group.size)
        first = group.rank * config.kv_heads // group.size  # ranks share a head where there are too few
        kept = slice(first * dim, (first + self.kv_heads) * dim)
        queries, keys = config.heads * dim, config.kv_heads * dim
        self.qkv = ColumnParallel(
            hidden,
            {
                f"{name}.q": (queries, group.part(queries)),
                f"{name}.k": (keys, kept),
                f"{name}.v": (keys, kept),
            },
            weights,
        )
        self.out = RowParallel(f"{name}.attention", queries, hidden, weights, group)
        wide, part = config.intermediate, group.part(config.intermediate)
        self.gate_up = ColumnParallel(
            hidden, {f"{name}.gate": (wide, part), f"{name}.up": (wide, part)}, weights
        )
        self.down = RowParallel(f"{name}.feed_forward", wide, hidden, weights, group)
        self.attention_norm, self.feed_forward_norm = weights.ones(hidden), weights.ones(hidden)
        # zeros: a masked position has weight 0, but 0 times a stray NaN is NaN
        self.cache = torch.zeros(
            2, rows, capacity, self.kv_heads, dim, device=weights.device, dtype=weights.dtype
        )

    def forward(self, x: Tensor, step: _Step) -> Tensor:
        """[rows, tokens, hidden] to the same; writes the tokens' keys and values first."""
        x = x + self._attention(rms_norm(x, self.attention_norm, self.config.norm_eps), step)
        gate, up = self.gate_up.forward(rms_norm(x, self.feed_forward_norm, self.config.norm_eps)).chunk(
            2, -1
        )
        return x + self.down.forward(functional.silu(gate) * up)

    def _attention(self, x: Tensor, step: _Step) -> Tensor:
        rows, tokens = x.shape[:2]
        dim, shared = self.config.head_dim, self.heads // self.kv_heads
        sizes = [self.heads * dim, self.kv_heads * dim, self.kv_heads * dim]
        query, key, value = (
            part.view(rows, tokens, -1, dim) for part in torch.split(self.qkv.forward(x), sizes, dim=-1)
        )
        query, key = rotated(query, step.cosine, step.sine), rotated(key, step.cosine, step.sine)
        self.cache[0].index_put_((step.rows, step.where.position), key)
        self.cache[1].index_put_((step.rows, step.where.position), value)
        keys, values = self.cache[:, step.read, : step.where.context].transpose(2, 3)
        # the query heads of one key-value head stand in the place of further tokens: no copies of keys
        folded = query.view(rows, tokens, self.kv_heads, shared, dim).permute(0, 2, 3, 1, 4)
        folded = folded.reshape(rows, self.kv_heads, shared * tokens, dim)
        found = functional.scaled_dot_product_attention(folded, keys, values, attn_mask=step.mask)
        found = found.view(rows, self.kv_heads, shared, tokens, dim).permute(0, 3, 1, 2, 4)
        return self.out.forward(found.reshape(rows, tokens, self.heads * dim))


class Decoder:
    """A stack of layers; `forward` maps embeddings to hidden states."""

    def __init__(
        self, name: str, config: ModelConfig, weights: Weights, group: Group, rows: int, capacity: int
    ) -> None:
        self.layers = [
            Layer(f"{name}.{place}", config, weights, group, rows, capacity) for place in range(config.layers)
        ]
        self.rotation = Rotation(capacity, config.head_dim, config.rope_theta, weights.device)
        self.norm, self.eps = weights.ones(config.hidden), config.norm_eps

    def forward(self, x: Tensor, where: Where) -> Tensor:
        """[rows, tokens, hidden] to the normed hidden states, same shape."""
        step = self._step(x, where)
        for layer in self.layers:
            x = layer.forward(x, step)
        return rms_norm(x, self.norm, self.eps)

    def _step(self, x: Tensor, where: Where) -> _Step:
        count, shared = x.shape[0], self.layers[0].heads // self.layers[0].kv_heads
        rows = torch.arange(where.first_row, where.first_row + count, device=x.device)[:, None]
        seen = torch.arange(where.context, device=x.device)
        hidden_from = seen > where.position.repeat(1, shared)[:, None, :, None]
        mask = torch.zeros(hidden_from.shape, device=x.device, dtype=x.dtype)
        return _Step(
            rows,
            slice(where.first_row, where.first_row + count),
            where,
            self.rotation.cosine[where.position].unsqueeze(2),
            self.rotation.sine[where.position].unsqueeze(2),
            mask.masked_fill_(hidden_from, float("-inf")),
        )

    def move_row(self, source: int, target: int, tokens: int) -> None:
        """Copy the first `tokens` positions of one row's cache to another row's."""
        for layer in self.layers:
            layer.cache[:, target, :tokens] = layer.cache[:, source, :tokens]
