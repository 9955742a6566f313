"""The draft model: like EAGLE, it reads the next token and the hidden state that foretold it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from toolkit.reference.collectives import Group
from toolkit.reference.config import ModelConfig
from toolkit.reference.decoder import Decoder, Where
from toolkit.reference.layers import Embedding, Head
from toolkit.reference.weights import Weights

_HIDDEN_SHARE = 0.2  # of what enters the decoder, the rest is the token's embedding


class Draft:
    """A small decoder in a group of its own. At position i it reads token i+1 and hidden state i.

    Embedding and head are the target's; a smaller vocabulary holds the first tokens of the target's.
    """

    def __init__(
        self, config: ModelConfig, vocab: int, weights: Weights, group: Group, rows: int, capacity: int
    ) -> None:
        hidden = config.hidden
        self.embedding = Embedding("embedding", config.padded_vocab, hidden, weights, group)
        mixed = weights.normal(
            "draft.mix", (hidden, 2 * hidden), _HIDDEN_SHARE * hidden**-0.5, slice(0, hidden)
        )
        eye = torch.eye(hidden, 2 * hidden, device=weights.device, dtype=weights.dtype)
        self.mix = mixed + eye  # not split: it is small
        self.decoder = Decoder("draft", config, weights, group, rows, capacity)
        self.head = Head("head", vocab, config, weights, group)

    def forward(
        self, tokens: Tensor, hidden: Tensor, where: Where, keep: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """One draft forward: logits [rows, vocab] and hidden state [rows, hidden] of one token a row.

        tokens [rows, n], hidden [rows, n, hidden]; `keep` [rows] is the token that counts, by default
        the last one.
        """
        mixed = functional.linear(torch.cat((self.embedding.forward(tokens), hidden), dim=-1), self.mix)
        found = self.decoder.forward(mixed, where)
        if keep is None:
            kept = found[:, -1]
        else:
            place = keep[:, None, None].expand(-1, 1, found.shape[-1])
            kept = found.gather(1, place).squeeze(1)
        return self.head.forward(kept), kept
