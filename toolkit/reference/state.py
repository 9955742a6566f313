"""What the device remembers of every running request: one row each, at addresses that graphs can hold."""

from __future__ import annotations

import torch
from torch import Tensor


class RowState:
    """Tensors whose row r belongs to the request in row r; a free row is all zeros.

    `length` counts the tokens whose keys and values the target's cache holds: the root, at that
    position, is not one of them.
    """

    def __init__(
        self, rows: int, num_steps: int, hidden: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        width = num_steps + 1
        self.root = torch.zeros(rows, dtype=torch.int64, device=device)
        self.length = torch.zeros(rows, dtype=torch.int64, device=device)
        # of the last extend: the first draft, and the draft's hidden state that chose it
        self.first_draft = torch.zeros(rows, dtype=torch.int64, device=device)
        self.draft_hidden = torch.zeros(rows, hidden, dtype=dtype, device=device)
        # of the draft pass and the verify forward
        self.drafts = torch.zeros(rows, num_steps, dtype=torch.int64, device=device)
        self.predictions = torch.zeros(rows, width, dtype=torch.int64, device=device)
        self.hidden = torch.zeros(rows, width, hidden, dtype=dtype, device=device)
        # of accepting: correct drafts, the bonus token behind them, zeros; and how many are correct
        self.committed = torch.zeros(rows, width, dtype=torch.int64, device=device)
        self.correct = torch.zeros(rows, dtype=torch.int64, device=device)

    def move_row(self, source: int, target: int) -> None:
        """Let the request of one row go on in another."""
        for rows in self._all():
            rows[target] = rows[source]

    def clear_row(self, row: int) -> None:
        """Free a row: a padding row must not point past the cache."""
        for rows in self._all():
            rows[row] = 0

    def _all(self) -> tuple[Tensor, ...]:
        return (
            self.root,
            self.length,
            self.first_draft,
            self.draft_hidden,
            self.drafts,
            self.predictions,
            self.hidden,
            self.committed,
            self.correct,
        )
