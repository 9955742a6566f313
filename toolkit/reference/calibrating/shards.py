"""The shard of one rank at some tensor-parallel size, and the passes over it that are timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from toolkit.reference.calibrating.settings import Settings
from toolkit.reference.collectives import Group
from toolkit.reference.decoder import Decoder, aligned
from toolkit.reference.draft import Draft
from toolkit.reference.passes import Passes
from toolkit.reference.state import RowState
from toolkit.reference.target import Target
from toolkit.reference.weights import Weights

CHAIN = 8  # draft forwards of the pass that a draft step is timed in
_CAPACITY_MULTIPLE = 64


@dataclass(frozen=True, slots=True)
class Job:
    """One pass to time: `forwards` forwards of `num_tokens` tokens for each of `batch_size` requests."""

    kind: str
    batch_size: int
    num_tokens: int
    phase: str  # as the engine's graphs name it
    forwards: int
    context: int  # cache positions that are read
    passes: Passes


class Shard:
    """The draft's or the target's part of one rank, without the other model."""

    def __init__(self, part: str, settings: Settings, group: Group, device: torch.device) -> None:
        engine = settings.engine
        self._settings, self._device = settings, device
        self._dtype = getattr(torch, engine.dtype)
        weights = Weights(engine.seed, device, self._dtype)
        rows = max(settings.batch_sizes)
        longest = settings.context + max(CHAIN, *settings.step_counts) + 1
        capacity = -(-longest // _CAPACITY_MULTIPLE) * _CAPACITY_MULTIPLE
        self.draft = self.target = None
        if part == "draft":
            assert engine.draft is not None  # settings always draft
            self.draft = Draft(engine.draft, engine.draft_vocab, weights, group, rows, capacity)
        else:
            self.target = Target(engine.target, weights, group, rows, capacity)

    @property
    def weight_bytes(self) -> int:
        """Bytes that a forward reads; of an embedding it reads a few rows, so none are counted."""
        if self.draft:
            return (
                _bytes(self.draft.mix) + _bytes(self.draft.head.weight) + _decoder_bytes(self.draft.decoder)
            )
        assert self.target is not None
        return _bytes(self.target.head.weight) + _decoder_bytes(self.target.decoder)

    def jobs(self) -> Iterator[Job]:
        """Yield what is timed of this model."""
        one_forward = {step: step + 1 for step in self._settings.step_counts}
        for batch in self._settings.batch_sizes:
            if self.draft:
                yield self._job("draft_step", "draft", batch, 1, CHAIN + 1, CHAIN)
                for steps, tokens in one_forward.items():
                    yield self._job("draft_extend", "draft_extend", batch, tokens, steps)
            else:
                yield self._job("decode", "decode", batch, 1, 0)
                for steps, tokens in one_forward.items():
                    yield self._job("verify", "verify", batch, tokens, steps)

    def _job(
        self, kind: str, phase: str, batch: int, num_tokens: int, num_steps: int, forwards: int = 1
    ) -> Job:
        engine = self._settings.engine
        state = RowState(batch, num_steps, engine.target.hidden, self._device, self._dtype)
        torch.manual_seed(engine.seed)  # ranks of a group read the same tokens
        for tokens in (state.root, state.first_draft, state.drafts, state.committed):
            tokens.random_(engine.draft_vocab)
        for hidden in (state.draft_hidden, state.hidden):
            hidden.normal_()
        state.length.fill_(self._settings.context)
        state.correct.fill_(num_steps)  # so that a draft extend starts where its tokens do
        passes = Passes(cast(Target, self.target), self.draft, state, num_steps)
        context = aligned(self._settings.context + max(forwards, num_tokens))
        return Job(kind, batch, num_tokens, phase, forwards, context, passes)


def _bytes(values: Tensor) -> int:
    return int(values.numel() * values.element_size())


def _decoder_bytes(decoder: Decoder) -> int:
    total = _bytes(decoder.norm)
    for layer in decoder.layers:
        matrices: tuple[Any, ...] = (layer.qkv, layer.out, layer.gate_up, layer.down)
        total += sum(_bytes(one.weight) for one in matrices)
        total += _bytes(layer.attention_norm) + _bytes(layer.feed_forward_norm)
    return total
