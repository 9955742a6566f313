"""Requests: those that wait, and those that run, each in a row of the caches."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from toolkit.reference.cycle import CycleResult


@dataclass(slots=True)
class Request:
    """One sequence: its prompt, what was generated, and counters of its cycles."""

    number: int
    input_ids: list[int]
    max_new_tokens: int
    stop_at: int | None  # end-of-sequence token, None to ignore it
    num_steps: int
    output_ids: list[int] = field(default_factory=list)
    correct_drafts_histogram: list[int] = field(default_factory=list)
    arrived: float = field(default_factory=time.monotonic)
    finish: str | None = None

    def add(self, tokens: tuple[int, ...]) -> None:
        """Append committed tokens, up to the end that the client or the model set."""
        for token in tokens:
            if self.finish:
                return
            self.output_ids.append(token)
            if token == self.stop_at:
                self.finish = "stop"
            elif len(self.output_ids) >= self.max_new_tokens:
                self.finish = "length"

    def count(self, correct: int) -> None:
        """Count one cycle. Drafts past the request's end count too: the cycle did keep them."""
        if not self.correct_drafts_histogram:
            self.correct_drafts_histogram = [0] * (self.num_steps + 1)
        self.correct_drafts_histogram[correct] += 1

    def answer(self) -> dict[str, Any]:
        """Return what the client is told, in SGLang's words."""
        cycles = sum(self.correct_drafts_histogram)
        correct = sum(kept * times for kept, times in enumerate(self.correct_drafts_histogram))
        meta: dict[str, Any] = {
            "id": str(self.number),
            "prompt_tokens": len(self.input_ids),
            "completion_tokens": len(self.output_ids),
            "finish_reason": {"type": self.finish},
            "e2e_latency": time.monotonic() - self.arrived,
        }
        if self.num_steps:
            meta |= {
                "spec_verify_ct": cycles,
                "spec_num_correct_drafts": correct,
                "spec_num_proposed_drafts": cycles * self.num_steps,
                "spec_correct_drafts_histogram": self.correct_drafts_histogram,
            }
        return {"output_ids": self.output_ids, "meta_info": meta}


class Batch:
    """The running requests fill rows 0, 1, ...: a finished one's row is taken by the last."""

    def __init__(self, max_batch: int) -> None:
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._max_batch = max_batch

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)

    def admit(self) -> list[Request]:
        """Move waiting requests into free rows; return them, the last rows of `running`."""
        admitted = []
        while self.waiting and len(self.running) < self._max_batch:
            admitted.append(self.waiting.popleft())
            self.running.append(admitted[-1])
        return admitted

    def contexts(self) -> list[int]:
        """Return the tokens of each running request, its root included."""
        return [len(request.input_ids) + len(request.output_ids) for request in self.running]

    def commit(self, result: CycleResult) -> None:
        """Add a cycle's tokens to the running requests."""
        for request, tokens, correct in zip(self.running, result.tokens, result.correct_drafts, strict=True):
            request.count(correct)
            request.add(tokens)

    def retire(self) -> tuple[list[Request], list[tuple[int, int]]]:
        """Take out finished requests; return them and the moves (row, row now free) that close their gaps."""
        finished, moves = [], []
        for row in range(len(self.running) - 1, -1, -1):
            if not self.running[row].finish:
                continue
            finished.append(self.running[row])
            last = self.running.pop()
            moves.append((row, len(self.running)))
            if row < len(self.running):
                self.running[row] = last
        return finished[::-1], moves
