"""Target and draft of one rank, with the state and the graphs they run from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from toolkit.reference.acceptance import SimulatedAcceptance
from toolkit.reference.cycle import Cycle
from toolkit.reference.draft import Draft
from toolkit.reference.graphs import Graphs
from toolkit.reference.groups import Groups
from toolkit.reference.options import Options
from toolkit.reference.passes import Passes
from toolkit.reference.state import RowState
from toolkit.reference.target import Target
from toolkit.reference.tracing import Tracer
from toolkit.reference.weights import Weights

_CAPACITY_MULTIPLE = 64
_SMALLEST_CONTEXT = 256  # cache positions that the cheapest graph reads; the next reads four times as many


@dataclass(frozen=True, slots=True)
class Model:
    """What a rank computes with."""

    target: Target
    draft: Draft | None
    passes: Passes
    graphs: Graphs

    def capture(self) -> None:
        """Capture the graphs. All ranks must call it."""
        self.graphs.capture_all()
        for row in range(len(self.passes.state.root)):  # warm-ups wrote to it
            self.passes.state.clear_row(row)

    def move_row(self, source: int, target: int) -> None:
        """Let the request of one row go on in another: state and both caches."""
        tokens = int(self.passes.state.length[source])
        self.passes.state.move_row(source, target)
        self.target.decoder.move_row(source, target, tokens)
        if self.draft:
            self.draft.decoder.move_row(source, target, tokens)


def make_model(options: Options, groups: Groups, device: torch.device) -> Model:
    """Make weights and caches. All ranks must call it."""
    dtype = getattr(torch, options.dtype)
    weights = Weights(options.seed, device, dtype)
    rows = options.max_batch
    capacity = _rounded(options.context + options.num_draft_tokens, _CAPACITY_MULTIPLE)
    target = Target(options.target, weights, groups.target, rows, capacity)
    draft = None
    if options.draft:
        draft = Draft(options.draft, options.draft_vocab, weights, groups.draft, rows, capacity)
    state = RowState(rows, options.num_steps, options.target.hidden, device, dtype)
    passes = Passes(target, draft, state, options.num_steps)
    contexts = _graph_contexts(capacity) if options.cuda_graphs else ()
    graphs = Graphs(passes, options.capture_sizes, contexts)
    return Model(target, draft, passes, graphs)


def make_cycle(options: Options, model: Model, tracer: Tracer) -> Cycle:
    """Return the cycle over a model; simulated acceptance draws from the server's seed on every rank."""
    simulated = None
    if options.curve and options.num_steps:
        simulated = SimulatedAcceptance(options.curve, options.num_steps, options.seed)
    return Cycle(model.passes, model.graphs, simulated, tracer)


def _graph_contexts(capacity: int) -> tuple[int, ...]:
    """Return how many cache positions graphs read, ascending: 256, 1024, ... and all of them."""
    contexts, context = [], _SMALLEST_CONTEXT
    while context < capacity:
        contexts.append(context)
        context *= 4
    return (*contexts, capacity)


def _rounded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
