"""Linears and embeddings split over the ranks of a group, norms and rotation.

A column-parallel linear splits the output and needs no exchange; a row-parallel one splits the input
and sums the ranks' results.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from toolkit.reference import collectives
from toolkit.reference.collectives import Group
from toolkit.reference.config import ModelConfig, padded
from toolkit.reference.weights import Weights

# Layers add little to the token's own embedding: else a draft of dummy weights never guesses right.
_RESIDUAL_SHARE = 0.2


class ColumnParallel:
    """Several linears of one input, fused: `outputs` maps a name to (rows in all, rows kept here)."""

    def __init__(self, inputs: int, outputs: dict[str, tuple[int, slice]], weights: Weights) -> None:
        parts = [
            weights.normal(name, (rows, inputs), inputs**-0.5, keep) for name, (rows, keep) in outputs.items()
        ]
        self.weight = torch.cat(parts) if len(parts) > 1 else parts[0]

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., rows kept here]."""
        return functional.linear(x, self.weight)


class RowParallel:
    """A linear whose input is split; `forward` returns the sum over the ranks."""

    def __init__(self, name: str, inputs: int, outputs: int, weights: Weights, group: Group) -> None:
        self.name, self.group = name, group
        deviation = _RESIDUAL_SHARE * inputs**-0.5
        self.weight = weights.normal(name, (outputs, inputs), deviation, group.part(inputs), axis=1)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs / ranks] to [..., outputs]."""
        return collectives.all_reduce(functional.linear(x, self.weight), self.group, self.name)


class Embedding:
    """A vocabulary split over the ranks: each adds the rows that it holds."""

    def __init__(self, name: str, vocab: int, hidden: int, weights: Weights, group: Group) -> None:
        self.name, self.group = name, group
        kept = group.part(vocab)
        self.first, self.count = kept.start, kept.stop - kept.start
        self.weight = weights.shared(name, (vocab, hidden), 1.0, kept)

    def forward(self, tokens: Tensor) -> Tensor:
        """[...] token ids to [..., hidden]."""
        if self.group.size == 1:
            return functional.embedding(tokens, self.weight)
        local = tokens - self.first
        inside = (local >= 0) & (local < self.count)
        found = functional.embedding(local.clamp(0, self.count - 1), self.weight)
        return collectives.all_reduce(found * inside.unsqueeze(-1), self.group, self.name)


class Head:
    """The projection to the first `vocab` tokens, split over the ranks, gathered whole."""

    def __init__(self, name: str, vocab: int, config: ModelConfig, weights: Weights, group: Group) -> None:
        self.name, self.group, self.vocab = name, group, vocab
        shape, kept = (config.padded_vocab, config.hidden), group.part(padded(vocab))
        self.weight = weights.shared(name, shape, config.hidden**-0.5, kept)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., hidden] to [..., vocab]: the same on every rank."""
        logits = functional.linear(hidden, self.weight)
        return collectives.all_gather(logits, self.group, self.name)[..., : self.vocab]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide by the root mean square of the last dimension."""
    return functional.rms_norm(x, (x.shape[-1],), weight, eps)


class Rotation:
    """Cosines and sines of every position that a request can have: [positions, head_dim / 2]."""

    def __init__(self, positions: int, head_dim: int, theta: float, device: torch.device) -> None:
        frequency = theta ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
        angle = torch.arange(positions, device=device, dtype=torch.float32)[:, None] * frequency
        self.cosine, self.sine = angle.cos(), angle.sin()


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate the halves of each head.

    x is [rows, tokens, heads, head_dim], cosine and sine [rows, tokens, 1, head_dim / 2].
    """
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(x.dtype)
