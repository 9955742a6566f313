"""CUDA graphs of the phases: one for each phase, padded batch size and context read.

Without a GPU, or where none was captured, the same pass runs kernel by kernel.
"""

from __future__ import annotations

from typing import Any

import torch

from toolkit.reference.decoder import aligned
from toolkit.reference.passes import Passes

_PASS_NAMES = {
    "draft": "draft_pass",
    "verify": "verify_pass",
    "draft_extend": "extend_pass",
    "decode": "decode_pass",
}
_WARM_UPS = 2  # libraries allocate and choose kernels in their first calls, which a graph must not hold


class Graphs:
    """Captures passes and runs them.

    `sizes`: padded batch sizes. `contexts`: how many cache positions a graph may read, ascending. A
    graph always reads all of them, so the smallest that holds a batch is replayed.
    """

    def __init__(self, passes: Passes, sizes: tuple[int, ...], contexts: tuple[int, ...]) -> None:
        self.passes, self.sizes, self.contexts = passes, sizes, contexts
        self._graphs: dict[tuple[str, int, int], Any] = {}
        self._pool: Any = None

    def padded(self, batch_size: int) -> int:
        """Return the smallest size that holds a batch."""
        return next(size for size in self.sizes if size >= batch_size)

    def context(self, needed: int) -> int:
        """Return how many cache positions a cycle reads that needs this many."""
        return next((context for context in self.contexts if context >= needed), aligned(needed))

    def capture_all(self) -> None:
        """Capture every graph a server of this step count replays; the largest first, to share memory."""
        steps = self.passes.num_steps
        phases = ("draft", "verify", "draft_extend") if steps > 1 else ("verify", "draft_extend")
        for phase in phases if steps else ("decode",):
            for rows in reversed(self.sizes):
                for context in reversed(self.contexts):
                    self.capture(phase, rows, context)

    def capture(self, phase: str, rows: int, context: int) -> None:
        """Capture one pass. All ranks of a group must capture in the same order."""
        body = getattr(self.passes, _PASS_NAMES[phase])
        for _ in range(_WARM_UPS):
            body(rows, context)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # NCCL's watchdog thread polls events meanwhile, which is forbidden in the default mode
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            body(rows, context)
        self._pool = graph.pool()
        self._graphs[phase, rows, context] = graph

    def run(self, phase: str, rows: int, context: int) -> bool:
        """Run one pass; return whether a graph was replayed."""
        graph = self._graphs.get((phase, rows, context))
        if graph is None:
            getattr(self.passes, _PASS_NAMES[phase])(rows, context)
            return False
        graph.replay()
        return True
