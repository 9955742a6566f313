"""The device work of the phases, from and to `RowState`: what is run eagerly or captured in a graph.

Nothing here depends on values that only the device knows, and nothing waits for it. `rows` is the
padded batch size, `context` how many positions of the caches are read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from toolkit.reference.decoder import Where
from toolkit.reference.draft import Draft
from toolkit.reference.state import RowState
from toolkit.reference.target import Target


class Passes:
    """One method for each phase's forwards, and the prefill."""

    def __init__(self, target: Target, draft: Draft | None, state: RowState, num_steps: int) -> None:
        self.target, self.state, self.num_steps = target, state, num_steps
        self._draft = draft
        self._offsets = torch.arange(num_steps + 1, device=state.root.device)

    @property
    def draft(self) -> Draft:
        assert self._draft is not None  # only asked for with num_steps > 0
        return self._draft

    def draft_pass(self, rows: int, context: int) -> None:
        """K-1 draft forwards: the extend before has chosen the first of the K drafts."""
        state = self.state
        token, hidden = state.first_draft[:rows], state.draft_hidden[:rows]
        state.drafts[:rows, 0] = token
        for step in range(1, self.num_steps):
            where = Where(state.length[:rows, None] + (step - 1), context)
            logits, hidden = self.draft.forward(token[:, None], hidden[:, None], where)
            token = logits.argmax(-1)
            state.drafts[:rows, step] = token

    def verify_pass(self, rows: int, context: int) -> None:
        """The target's forward over the root and the drafts."""
        state = self.state
        tokens = torch.cat((state.root[:rows, None], state.drafts[:rows]), dim=1)
        logits, hidden = self.target.forward(
            tokens, Where(state.length[:rows, None] + self._offsets, context)
        )
        state.predictions[:rows] = logits.argmax(-1)
        state.hidden[:rows] = hidden

    def decode_pass(self, rows: int, context: int) -> None:
        """Plain decoding: the target's forward over the root alone."""
        self.verify_pass(rows, context)

    def extend_pass(self, rows: int, context: int) -> None:
        """The draft's forward over what was committed; it chooses the first draft of the next cycle.

        All K+1 places are computed. Those behind the bonus token write keys that are overwritten
        before a later token can see them.
        """
        state = self.state
        correct = state.correct[:rows]
        start = (state.length[:rows] - correct - 1).clamp(min=0)  # padding rows have no start
        where = Where(start[:, None] + self._offsets, context)
        logits, kept = self.draft.forward(state.committed[:rows], state.hidden[:rows], where, correct)
        state.first_draft[:rows] = logits.argmax(-1)
        state.draft_hidden[:rows] = kept

    def accept_pass(self, batch_size: int, correct: Tensor | None) -> None:
        """Commit the correct drafts and the bonus token of the first `batch_size` rows.

        `correct` [batch_size] is simulated; None counts the drafts that the target would have chosen.
        """
        state, drafts = self.state, self.state.drafts[:batch_size]
        predictions = state.predictions[:batch_size]
        if correct is None:
            correct = (drafts == predictions[:, :-1]).cumprod(-1).sum(-1)
        bonus = predictions.gather(1, correct[:, None])
        wide = torch.cat((drafts, bonus), dim=1)  # its last column is never a correct draft
        committed = torch.where(self._offsets < correct[:, None], wide, 0)
        committed.scatter_(1, correct[:, None], bonus)
        state.committed[:batch_size] = committed
        state.correct[:batch_size] = correct
        state.root[:batch_size] = bonus.squeeze(1)
        state.length[:batch_size] += correct + 1

    def prefill(self, row: int, tokens: Tensor, context: int) -> None:
        """Compute a prompt [n] in a row of its own: caches, first root, first draft."""
        state, count = self.state, len(tokens)
        where = Where(torch.arange(count, device=tokens.device)[None], context, row)
        logits, hidden = self.target.forward(tokens[None], where, last_only=True)
        first = logits[0, -1].argmax(-1)
        state.root[row], state.length[row] = first, count
        if self.num_steps:
            following = torch.cat((tokens[1:], first[None]))
            logits, kept = self.draft.forward(following[None], hidden, where)
            state.first_draft[row], state.draft_hidden[row] = logits[0].argmax(-1), kept[0]
