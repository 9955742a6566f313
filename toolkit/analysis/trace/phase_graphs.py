"""The graphs behind one phase on all ranks, and the place of every kernel in its graph's usual sequence.

A replay of a graph holds the same kernels each time, on every rank. Which graph a launch replayed is
recognised by how often it holds each kernel; lost kernels then leave holes, and shift nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.analysis.trace.alike import alike_groups
from toolkit.analysis.trace.consensus import Ids, places, usual_sequence
from toolkit.analysis.trace.cycles import Phase, TracedCycle
from toolkit.analysis.trace.kernel_names import KernelKind, kernel_kind
from toolkit.analysis.trace.releasing import releasing
from toolkit.schema.trace import Int32s, Kernels, RankTrace


@dataclass(frozen=True, slots=True)
class Graph:
    """The usual sequence of one graph; `slot[place]` is the number of a collective there, else -1."""

    usual: Ids
    slot: Ids
    collectives: tuple[KernelKind, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """One occurrence of a phase: those of its kernels that have a place in `graph`, by place."""

    phase: Phase
    graph: Graph
    kernels: Int32s
    places: Ids

    def kernel_at(self, place: int) -> int:
        """Return the kernel at a place, -1 if none was recorded there."""
        at = int(np.searchsorted(self.places, place))
        return int(self.kernels[at]) if at < len(self.places) and self.places[at] == place else -1


@dataclass(frozen=True, slots=True)
class PhaseGraphs:
    """Occurrences of one phase by rank and by the start of their cycle."""

    name: str
    by_rank: tuple[dict[int, Placed], ...]

    def of(self, rank: int, cycle: TracedCycle) -> Placed | None:
        """Return the occurrence in a cycle of the rank at that position."""
        return self.by_rank[rank].get(cycle.start_ns)


def phase_graphs(
    name: str, traces: Sequence[RankTrace], cycles: Sequence[Sequence[TracedCycle]]
) -> PhaseGraphs | None:
    """Recognise the graphs of a phase over the cycles of all ranks; None if no cycle has the phase."""
    shared: dict[str, int] = {}  # names have numbers of their own in each trace
    alike: dict[bytes, Ids] = {}  # equal sequences are held once
    found: list[tuple[int, TracedCycle, Int32s, Ids]] = []
    for rank, (trace, own) in enumerate(zip(traces, cycles, strict=True)):
        number = np.array([shared.setdefault(text, len(shared)) for text in trace.names], dtype=np.int64)
        having = [cycle for cycle in own if name in cycle.phases]
        for cycle in releasing(having, trace.kernels):
            kernels = _by_start(cycle.phases[name].kernels, trace.kernels)
            sequence = number[trace.kernels.name[kernels]]
            sequence = alike.setdefault(sequence.tobytes(), sequence)
            found.append((rank, cycle, kernels, sequence))
    if not found:
        return None
    graphs = _graphs([sequence for *_, sequence in found], list(shared))
    by_rank: list[dict[int, Placed]] = [{} for _ in traces]
    known: dict[tuple[int, bytes], Ids] = {}
    nodes = _NodePlaces(traces)
    for (rank, cycle, kernels, sequence), graph in zip(found, graphs, strict=True):
        key = (id(graph), sequence.tobytes())
        if key not in known:
            known[key] = places(sequence, graph.usual)
        nodes.note(rank, graph, kernels, known[key])
        by_rank[rank][cycle.start_ns] = Placed(cycle.phases[name], graph, kernels, known[key])
    corrected = [
        {start: nodes.placed(rank, placed) for start, placed in own.items()}
        for rank, own in enumerate(by_rank)
    ]
    return PhaseGraphs(name, tuple(corrected))


def _by_start(indices: Int32s, kernels: Kernels) -> Int32s:
    """Return indices of kernels in order of their start; those that are in it are not copied."""
    start = kernels.start_ns[indices]
    return indices[np.argsort(start, kind="stable")] if (start[1:] < start[:-1]).any() else indices


def _graphs(sequences: Sequence[Ids], names: Sequence[str]) -> list[Graph]:
    """Return the graph of each sequence."""
    numbers = alike_groups(sequences, len(names))
    groups: dict[int, list[Ids]] = {}
    for number, sequence in zip(numbers, sequences, strict=True):
        groups.setdefault(number, []).append(sequence)
    made = {number: _graph(usual_sequence(group), names) for number, group in groups.items()}
    return [made[number] for number in numbers]


def _graph(usual: Ids, names: Sequence[str]) -> Graph:
    kinds = [kernel_kind(names[name]) for name in usual.tolist()]
    collective = np.array([kind.kind == "collective" for kind in kinds], dtype=bool)
    slot = np.where(collective, np.cumsum(collective) - 1, -1).astype(np.int64)
    return Graph(usual, slot, tuple(kind for kind in kinds if kind.kind == "collective"))


class _NodePlaces:
    """Places by graph node, where traces have node ids: the place that a node has in most replays.

    An id that several kernels of one replay bear is no node's own, and tells no place.
    """

    def __init__(self, traces: Sequence[RankTrace]) -> None:
        self._nodes = [trace.kernels.node for trace in traces]
        self._seen: dict[tuple[int, int], dict[int, Counter[int]]] = {}
        self._shared: dict[tuple[int, int], set[int]] = {}
        self._known: dict[tuple[int, int], dict[int, int]] = {}

    def note(self, rank: int, graph: Graph, kernels: Int32s, at: Ids) -> None:
        """Count the places of one replay's nodes."""
        nodes = self._nodes[rank]
        if nodes is None:
            return
        seen = self._seen.setdefault((rank, id(graph)), {})
        ids, times = np.unique(nodes[kernels], return_counts=True)
        self._shared.setdefault((rank, id(graph)), set()).update(ids[times > 1].tolist())
        for node, place in zip(nodes[kernels].tolist(), at.tolist(), strict=True):
            if node and place >= 0:
                seen.setdefault(node, Counter())[place] += 1

    def _usual(self, rank: int, graph: Graph) -> dict[int, int]:
        """Return the place that each node of a graph has in most replays."""
        key = (rank, id(graph))
        if key not in self._known:
            shared = self._shared.get(key, set())
            seen = self._seen.get(key, {})
            self._known[key] = {
                node: counts.most_common(1)[0][0] for node, counts in seen.items() if node not in shared
            }
        return self._known[key]

    def placed(self, rank: int, placed: Placed) -> Placed:
        """Return an occurrence by its nodes' places, less kernels that have none."""
        at = placed.places
        nodes = self._nodes[rank]
        if nodes is not None:
            usual = self._usual(rank, placed.graph)
            own = nodes[placed.kernels].tolist()
            at = np.array([usual.get(node, place) for node, place in zip(own, at.tolist(), strict=True)])
        if len(at) == len(placed.graph.usual) and at[0] == 0 and at[-1] == len(at) - 1:
            return placed  # whole, as nearly all are
        order = np.argsort(at, kind="stable")
        order = order[at[order] >= 0]
        first = np.r_[True, np.diff(at[order]) > 0] if len(order) else np.zeros(0, dtype=bool)
        return Placed(placed.phase, placed.graph, placed.kernels[order][first], at[order][first])
