"""Forwards of models in a rank's launches, and the kernels between them that tell which is which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.analysis.trace.annotations import Label, RangeMeaning
from toolkit.analysis.trace.launches import Launch, is_forward_work
from toolkit.schema.trace import Int32s

_BOUNDARIES = ("tree", "accept", "draft_setup", "sampling")
_FEWEST_KERNELS = 4  # a forward has at least projections, attention and a head


@dataclass(frozen=True, slots=True)
class Forward:
    """One execution of a model: launches `first` to `last` (inclusive positions in the rank's list).

    `kernels` are all kernels of those launches by start, small ones between graph pieces included.
    """

    first: int
    last: int
    kernels: Int32s
    start_ns: int
    end_ns: int
    graph: bool  # every piece is a graph replay
    call_ns: int | None  # of the first launch
    meaning: RangeMeaning | None
    range_id: int | None

    @property
    def label(self) -> Label | None:
        return self.meaning.label if self.meaning else None


@dataclass(frozen=True, slots=True)
class Marker:
    """An eager kernel that stands between forwards: tree build, accept, draft set-up or sampling."""

    position: int
    kind: str


def forwards_of(launches: Sequence[Launch]) -> tuple[list[Forward], list[Marker]]:
    """Split a rank's launches into forwards and markers, both in launch order.

    A forward ends where a marker stands, where the engine's host range changes, and after a graph
    that holds a whole forward (matrix and attention work): such a graph is a forward by itself.
    """
    forwards: list[Forward] = []
    markers: list[Marker] = []
    pieces: list[int] = []
    for position, launch in enumerate(launches):
        if not launch.graph and launch.kind in _BOUNDARIES:
            markers.append(Marker(position, str(launch.kind)))
            _close(launches, pieces, forwards)
            continue
        if not is_forward_work(launch):
            continue
        whole = launch.graph and launch.whole_forward
        if pieces and (whole or launches[pieces[-1]].range_id != launch.range_id):
            _close(launches, pieces, forwards)
        pieces.append(position)
        if whole:
            _close(launches, pieces, forwards)
    _close(launches, pieces, forwards)
    return forwards, markers


def _close(launches: Sequence[Launch], pieces: list[int], forwards: list[Forward]) -> None:
    """Turn the collected pieces into a forward if they are one, and empty them."""
    if pieces:
        forward = _forward(launches, pieces)
        if len(forward.kernels) >= _FEWEST_KERNELS and any(launches[p].model for p in pieces):
            forwards.append(forward)
        pieces.clear()


def joined(kernels: Sequence[Int32s]) -> Int32s:
    """Return all of them in one array; a single one is not copied."""
    return kernels[0] if len(kernels) == 1 else np.concatenate(kernels)


def _forward(launches: Sequence[Launch], pieces: Sequence[int]) -> Forward:
    first, last = pieces[0], pieces[-1]
    covered = [launches[p] for p in range(first, last + 1)] if last > first else [launches[first]]
    kept = [launch for launch in covered if launch.kind not in ("copy", "setup")] or covered
    kernels = joined([launch.kernels for launch in kept])
    return Forward(
        first=first,
        last=last,
        kernels=kernels,
        start_ns=min(launch.start_ns for launch in kept),
        end_ns=max(launch.end_ns for launch in kept),
        graph=all(launches[p].graph for p in pieces),
        call_ns=launches[first].call_ns,
        meaning=launches[first].meaning,
        range_id=launches[first].range_id,
    )
