"""One cycle of all running requests. The names in `Cycle` are stable: a probe wraps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from toolkit.reference.acceptance import SimulatedAcceptance
from toolkit.reference.graphs import Graphs
from toolkit.reference.passes import Passes
from toolkit.reference.tracing import Tracer


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle did, as host values. `tokens` are those committed: correct drafts, then the bonus."""

    batch_size: int
    padded_batch_size: int
    contexts: tuple[int, ...]  # tokens of each request before the cycle, root included
    num_steps: int
    correct_drafts: tuple[int, ...]
    tokens: tuple[tuple[int, ...], ...]
    graph: dict[str, bool]  # phase -> replayed


class Cycle:
    """Draft, verify, accept and draft extend, or a plain decode: each only launches device work.

    From the start of `run` these are the current cycle's, all known to the host: `batch_size`,
    `padded_batch_size`, `contexts`, `context_read`, `num_steps`. `graph` fills phase by phase;
    `correct_drafts` holds this cycle's counts once `run` returns.
    """

    def __init__(
        self, passes: Passes, graphs: Graphs, simulated: SimulatedAcceptance | None, tracer: Tracer
    ) -> None:
        self.num_steps = passes.num_steps
        self.num_draft_tokens = passes.num_steps + 1
        self.batch_size = self.padded_batch_size = self.context_read = 0
        self.contexts: tuple[int, ...] = ()
        self.graph: dict[str, bool] = {}
        self.correct_drafts: tuple[int, ...] = ()
        self._passes, self._graphs, self._simulated, self._tracer = passes, graphs, simulated, tracer

    def run(self, contexts: Sequence[int]) -> CycleResult:
        """Run a cycle of the requests in rows 0, 1, ...; `contexts` are their tokens, root included.

        The one wait for the device is at the end, when the committed tokens are read.
        """
        self.contexts = tuple(contexts)
        self.batch_size = len(contexts)
        self.padded_batch_size = self._graphs.padded(self.batch_size)
        self.context_read = self._graphs.context(max(contexts) + self.num_steps)
        self.graph = {}
        if self.num_steps:
            self.draft()
            self.verify()
            self.accept()
            self.draft_extend()
        else:
            self.decode()
            self.accept()
        return self._result()

    def draft(self) -> None:
        """Propose K drafts for each request: K-1 draft forwards."""
        with self._tracer.span("draft"):
            self._run("draft")

    def verify(self) -> None:
        """Run the target over the root and the drafts."""
        with self._tracer.span(f"step[TARGET_VERIFY bs={self.batch_size}]"):
            self._run("verify")

    def accept(self) -> None:
        """Compare, or draw, how many drafts are correct; commit them and the bonus token."""
        correct = None
        if self._simulated:
            drawn = torch.tensor(self._simulated.draw(self.batch_size))
            correct = drawn.to(self._passes.state.root.device, non_blocking=True)
        self._passes.accept_pass(self.batch_size, correct)

    def draft_extend(self) -> None:
        """Run the draft over what was committed."""
        with self._tracer.span("draft_extend"):
            self._run("draft_extend")

    def decode(self) -> None:
        """Run the target over the roots alone."""
        with self._tracer.span(f"step[DECODE bs={self.batch_size}]"):
            self._run("decode")

    def _run(self, phase: str) -> None:
        self.graph[phase] = self._graphs.run(phase, self.padded_batch_size, self.context_read)

    def _result(self) -> CycleResult:
        state = self._passes.state
        both = torch.cat((state.correct[: self.batch_size, None], state.committed[: self.batch_size]), dim=1)
        rows = both.tolist()  # waits for the device
        self.correct_drafts = tuple(row[0] for row in rows)
        return CycleResult(
            self.batch_size,
            self.padded_batch_size,
            self.contexts,
            self.num_steps,
            self.correct_drafts,
            tuple(tuple(row[1 : row[0] + 2]) for row in rows),
            dict(self.graph),
        )
