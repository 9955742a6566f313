"""The second executable of an engine's graph: the same nodes and the events. Sampled cycles launch it.

The engine's own executable is as torch made it and runs in all other cycles. The copy is made executable by
the writer's thread when a sampled cycle first asks for it, so a server that is never profiled pays for it
neither time nor memory on the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .driver import Driver
from .event_set import EventSet
from .graph_marks import Sketch
from .recording import Cycle

GONE = "the graph is gone"
MAKING = "its copy is being made"
HELD = "its copy's events hold an earlier cycle"
ELSEWHERE = "another device is current"
_HELD_NS = 1_000_000_000  # how long a reading that is to come keeps the events from being recorded again


class GraphCopy:
    """One graph's copy. `why` says why it is not launched any more; None while it is or will be.

    torch's replay also moves the random generators on. A graph that draws random numbers is therefore never
    launched here: its first sampled replay, which is torch's, shows it by the generator's offset.
    """

    def __init__(
        self, driver: Driver, sketch: Sketch, torch: Any, flags: int, tell: Callable[[GraphCopy], None]
    ) -> None:
        self.why: str | None = None
        self.executable = 0
        self.graph = sketch.graph
        self._driver = driver
        self._flags = flags
        self._tell = tell  # the writer's thread, which builds it or notes why not
        self._torch = torch
        self._device = torch.cuda.current_device()
        self._asked = False
        self.events: EventSet = sketch.events()

    def replay(self, cycle: Cycle, phase: str, plain: Callable[[], Any]) -> Any:
        """Run the graph once in a sampled cycle: the copy where it can be, else `plain`, the engine's own."""
        without = self._launched(cycle, phase)
        if without is None:
            return None
        cycle.graphs.append((phase, without))
        if self.why is None and not self.executable:
            cycle.owed = True
            if not self._asked:
                self._asked = True
                return self._watched(plain)
        return plain()

    def build(self) -> None:
        """Make the copy executable, unless there is a `why`; in the writer's thread."""
        if self.why is None and not self.executable:
            try:
                self.executable = self._driver.instantiate(self.graph, self._flags)
            except Exception as error:
                self.why = str(error)
        self._free_graph()

    def drop(self) -> None:
        """Give the driver's objects back; while no graph is captured."""
        self.why = self.why or GONE
        executable, self.executable = self.executable, 0
        try:
            if executable:
                self._driver.call("cuGraphExecDestroy", executable)
        finally:
            self._free_graph()

    def launch(self) -> None:
        """Put one run on the current stream."""
        self._driver.launch(self.executable, self._torch.cuda.current_stream().cuda_stream)

    def _launched(self, cycle: Cycle, phase: str) -> str | None:
        """Launch the copy; return why not."""
        held = self.events.cycle
        if self.why is not None:
            return self.why
        if not self.executable:
            return MAKING
        if not self._free(held, cycle):
            return HELD
        try:
            if self._torch.cuda.current_device() != self._device:
                return ELSEWHERE
            self.events.cycle = cycle
            self.launch()
        except Exception as error:
            self.why, self.events.cycle = str(error), held
            self._tell(self)
            return self.why
        cycle.graphs.append((phase, self.events))
        return None

    def _free(self, held: Cycle | None, cycle: Cycle) -> bool:
        """Say whether the events may be recorded again: never twice in a cycle, nor before they are read."""
        if held is None or held.settled:
            return True
        return held is not cycle and time.monotonic_ns() - held.t_ns > _HELD_NS

    def _watched(self, plain: Callable[[], Any]) -> Any:
        """Run torch's own replay and see whether it moves the generator on."""
        before = self._offset()
        result = plain()
        if before is None or self._offset() != before:
            self.why = self.why or "it draws random numbers"
        self._tell(self)
        return result

    def _offset(self) -> int | None:
        try:
            return int(self._torch.cuda.default_generators[self._device].get_offset())
        except Exception as error:
            self.why = f"the random generator's offset is unknown: {error}"
            return None

    def _free_graph(self) -> None:
        graph, self.graph = self.graph, 0
        if graph:
            self._driver.call("cuGraphDestroy", graph)
