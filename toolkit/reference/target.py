"""The target model: embedding, decoder, head."""

from __future__ import annotations

from torch import Tensor

from toolkit.reference.collectives import Group
from toolkit.reference.config import ModelConfig
from toolkit.reference.decoder import Decoder, Where
from toolkit.reference.layers import Embedding, Head
from toolkit.reference.weights import Weights


class Target:
    """A decoder split over the target's group. A forward has 2 x layers + 1 all-reduces and one gather."""

    def __init__(self, config: ModelConfig, weights: Weights, group: Group, rows: int, capacity: int) -> None:
        self.embedding = Embedding("embedding", config.padded_vocab, config.hidden, weights, group)
        self.decoder = Decoder("target", config, weights, group, rows, capacity)
        self.head = Head("head", config.vocab, config, weights, group)

    def forward(self, tokens: Tensor, where: Where, last_only: bool = False) -> tuple[Tensor, Tensor]:
        """Return logits [rows, tokens (or 1), vocab] and hidden states [rows, tokens, hidden]."""
        hidden = self.decoder.forward(self.embedding.forward(tokens), where)
        return self.head.forward(hidden[:, -1:] if last_only else hidden), hidden
