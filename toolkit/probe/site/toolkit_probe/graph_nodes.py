"""Events that are nodes of the engine's own graph, so every replay records them again. Only where asked for.

cuda.h: "each launch of the graph will record event". So it is the launch that takes the last times away, not
the run on the GPU: from then on the events are not passed until that replay is. Where the host runs ahead and
launches a graph again before the GPU is done with it, no moment is left to ask. What can be read is read as
late as possible: right before the next launch, in the engine's thread, after a sampled cycle only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .event_set import AGAIN, NOT_PASSED, EventSet, read_sets, unreadable
from .recording import Cycle

CAPTURED = "a graph was captured before it was read"


class NodeEvents:
    """The events of one graph."""

    def __init__(self, events: EventSet) -> None:
        self.events = events

    def replay(self, cycle: Cycle, phase: str, plain: Callable[[], Any]) -> Any:
        """Run the graph in a sampled cycle."""
        cycle.graphs.append((phase, self.events))
        self.events.cycle = cycle
        return plain()

    def overwritten(self, may_ask: bool) -> None:
        """Read what the events hold: the next launch overwrites it. Never raises."""
        cycle = self.events.cycle
        if cycle is None:
            return
        phases = [phase for phase, events in cycle.graphs if events is self.events]
        for phase in dict.fromkeys(phases):
            if phase not in cycle.read and phase not in cycle.caught:
                cycle.caught[phase] = _last_look(cycle, phase) if may_ask else CAPTURED
        self.events.cycle = None


def _last_look(cycle: Cycle, phase: str) -> Any:
    sets = [events for name, events in cycle.graphs if name == phase]
    found = unreadable(sets) or read_sets(sets, times=1)
    return AGAIN if found == NOT_PASSED else found
