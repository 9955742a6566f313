"""GPU work of one rank by what launched it: graph replays and single kernels, in launch order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolkit.analysis.trace.alike import alike_groups
from toolkit.analysis.trace.annotations import RangeMeaning, meanings
from toolkit.analysis.trace.kernel_names import KernelClass, kernel_kind
from toolkit.analysis.trace.releasing import releasing
from toolkit.schema.trace import HostCalls, Int32s, Kernels, RankTrace

_GRAPH_CALLS = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
_AT_ONCE = 1 << 15  # kernels whose launches are compared
_FORWARD_CLASSES = ("gemm", "attention", "layer", "collective")


@dataclass(frozen=True, slots=True)
class Launch:
    """One graph replay, or one kernel launched alone (`kernels` then has one index).

    `kernels` index the trace's kernel columns, by start. `meaning` is that of the outermost host
    range around the call, `range_id` its number, None outside any; `kind` the class of an eager kernel.
    """

    graph: bool
    correlation: int
    call_ns: int | None
    kernels: Int32s
    start_ns: int
    end_ns: int
    kind: KernelClass | None
    model: bool  # holds matrix or attention work
    whole_forward: bool  # holds both; a piecewise graph leaves attention out
    meaning: RangeMeaning | None = None
    range_id: int | None = None


def launches_of(trace: RankTrace) -> list[Launch]:
    """Return the rank's launches in the order the host made them.

    Correlation ids grow with every call of a process, so they give the order even where the record
    of the call itself was lost.
    """
    return _Builder(trace).launches() if len(trace.kernels) else []


class _Builder:
    """Look-ups that every launch of one trace needs."""

    def __init__(self, trace: RankTrace) -> None:
        self.trace = trace
        self.classes = [kernel_kind(name).kind for name in trace.names]
        self.calls = _Calls(trace.host_calls)
        self.ranges = _Ranges(trace)

    def launches(self) -> list[Launch]:
        kernels = self.trace.kernels
        order = _by_call(kernels)
        edges, ids = _changes(kernels, order)
        groups = releasing(zip(ids, np.split(order, edges), strict=True), kernels)
        found = [launch for one, group in groups for launch in self._of_call(one, group)]
        return self._by_graph(found)

    def _by_graph(self, launches: list[Launch]) -> list[Launch]:
        """Say of each replay what its graph holds: it may have lost its only kernel of a kind."""
        graphs = [position for position, launch in enumerate(launches) if launch.graph]
        names = self.trace.kernels.name
        sequences = (names[launches[at].kernels] for at in releasing(graphs, self.trace.kernels))
        groups = alike_groups(sequences, len(self.trace.names))
        held = {}
        for group in set(groups):
            own = [launches[at] for at, number in zip(graphs, groups, strict=True) if number == group]
            held[group] = [_most(x.model for x in own), _most(x.whole_forward for x in own)]
        for at, number in zip(graphs, groups, strict=True):
            model, whole = held[number]
            if (launches[at].model, launches[at].whole_forward) != (model, whole):
                launches[at] = replace(launches[at], model=model, whole_forward=whole)
        return launches

    def _of_call(self, correlation: int, group: Int32s) -> list[Launch]:
        call = self.calls.of(correlation)
        range_id, meaning, call_ns, call_name = None, None, None, None
        if call is not None:
            name, call_ns, thread = call
            call_name = self.trace.names[name]
            range_id, meaning = self.ranges.around(call_ns, thread)
        graph = call_name in _GRAPH_CALLS if call_name else len(group) > 1 and correlation > 0
        pieces = [group] if graph or len(group) == 1 else [group[i : i + 1] for i in range(len(group))]
        return [self._launch(piece, graph, correlation, call_ns, meaning, range_id) for piece in pieces]

    def _launch(
        self,
        indices: Int32s,
        graph: bool,
        correlation: int,
        call_ns: int | None,
        meaning: RangeMeaning | None,
        range_id: int | None,
    ) -> Launch:
        kernels = self.trace.kernels
        first = int(indices[0])
        start = kernels.start_ns.item(first)
        if len(indices) == 1:
            kinds = {self.classes[kernels.name.item(first)]}
            end = start + kernels.duration_ns.item(first)
        else:
            kinds = {self.classes[name] for name in set(kernels.name[indices].tolist())}
            end = int((kernels.start_ns[indices] + kernels.duration_ns[indices]).max())
        return Launch(
            graph=graph,
            correlation=correlation,
            call_ns=call_ns,
            kernels=indices,
            start_ns=start,
            end_ns=end,
            kind=None if graph else next(iter(kinds)),
            model="gemm" in kinds or "attention" in kinds,
            whole_forward="gemm" in kinds and "attention" in kinds,
            meaning=meaning,
            range_id=range_id,
        )


class _Calls:
    """Host calls by their id: looked up in columns, as a record each of a long trace takes megabytes."""

    def __init__(self, host: HostCalls) -> None:
        self._host = host
        self._order = np.argsort(host.correlation, kind="stable")
        self._ids = host.correlation[self._order]

    def of(self, correlation: int) -> tuple[int, int, int] | None:
        """Return name, start in ns and thread of the last call with that id."""
        at = int(self._ids.searchsorted(correlation, side="right")) - 1
        if at < 0 or self._ids.item(at) != correlation:
            return None
        place, host = self._order.item(at), self._host
        return host.name.item(place), host.start_ns.item(place), host.thread.item(place)


def _by_call(kernels: Kernels) -> Int32s:
    """Return the order of kernels by call, those of one call by start, which is the order they are in."""
    places = np.arange(len(kernels), dtype=np.int32) if kernels.place is None else kernels.place
    order = places[: len(kernels)]
    if all((ids[1:] >= ids[:-1]).all() for _, ids in _calls(kernels, order)):
        return order  # sorting would take the memory of the column and more
    return np.argsort(kernels.correlation, kind="stable").astype(np.int32)


def _changes(kernels: Kernels, order: Int32s) -> tuple[NDArray[np.int64], list[int]]:
    """Return the places in `order` where the kernels of another call begin, and the calls in that order."""
    edges: list[NDArray[np.int64]] = []
    calls: list[int] = []
    last = -1
    for start, ids in _calls(kernels, order):
        changes = np.flatnonzero(ids[1:] != ids[:-1])
        edges.append(changes + (start + 1))
        calls += ids[changes].tolist()
        last = int(ids[-1])
    return np.concatenate(edges), [*calls, last]


def _calls(kernels: Kernels, order: Int32s) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the calls of kernels in that order, in blocks with their first place; last ones are in two."""
    for start in range(0, len(order), _AT_ONCE):
        kernels.release()
        yield start, kernels.correlation[order[start : start + _AT_ONCE + 1]]


def _most(told: Iterable[bool]) -> bool:
    values = list(told)
    return 2 * sum(values) >= len(values)


class _Ranges:
    """Outermost named host ranges of each thread, for looking up the one around a moment."""

    def __init__(self, trace: RankTrace) -> None:
        annotations = trace.annotations
        known = meanings(trace.names)
        self.by_thread: dict[int, tuple[list[int], list[int], list[int]]] = {}
        self.meaning: list[RangeMeaning] = []
        for i in range(len(annotations)):
            meaning = known[annotations.name[i]]
            if meaning is None:
                continue
            starts, ends, ids = self.by_thread.setdefault(int(annotations.thread[i]), ([], [], []))
            start, end = (
                int(annotations.start_ns[i]),
                int(annotations.start_ns[i] + annotations.duration_ns[i]),
            )
            if ends and start < ends[-1] and end <= ends[-1]:
                self._inside(ids[-1], meaning)
                continue
            starts.append(max(start, ends[-1]) if ends else start)  # ranges nest: an overlap is of rounding
            ends.append(end)
            ids.append(len(self.meaning))
            self.meaning.append(meaning)

    def _inside(self, outer: int, inner: RangeMeaning) -> None:
        """A range inside another may know the batch that the outer one does not name."""
        known = self.meaning[outer]
        if known.batch_size is None and inner.batch_size is not None:
            self.meaning[outer] = RangeMeaning(known.label, inner.batch_size, inner.tokens)

    def around(self, moment_ns: int, thread: int) -> tuple[int | None, RangeMeaning | None]:
        if thread not in self.by_thread:
            return None, None
        starts, ends, ids = self.by_thread[thread]
        at = bisect_right(starts, moment_ns) - 1
        if at < 0 or moment_ns >= ends[at]:
            return None, None
        return ids[at], self.meaning[ids[at]]


def is_forward_work(launch: Launch) -> bool:
    """Return whether a launch belongs to a model's forward: a graph with model work, or such a kernel."""
    return launch.model if launch.graph else launch.kind in _FORWARD_CLASSES


def graph_launches_without_kernels(trace: RankTrace, launches: list[Launch]) -> int:
    """Return how many graph launches the host made of which no kernel was recorded."""
    graph_names = [i for i, name in enumerate(trace.names) if name in _GRAPH_CALLS]
    made = set(trace.host_calls.correlation[np.isin(trace.host_calls.name, graph_names)].tolist())
    return len(made - {launch.correlation for launch in launches})
