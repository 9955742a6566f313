"""Further executables of an engine's graph: the same nodes and events. Sampled cycles launch them in turn.

The engine's own executable is as torch made it and runs in all other cycles. The copies are made executable
by the writer's thread when a sampled cycle first asks for one, so a server that is never profiled pays for
them neither time nor memory on the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .driver import Driver
from .event_set import EventSet
from .graph_marks import Sketch
from .recording import Cycle

GONE = "the graph is gone"
MAKING = "its copy is being made"
HELD = "its copy's events hold an earlier cycle"
ELSEWHERE = "another device is current"
_HELD_NS = 1_000_000_000  # how long a reading that is to come keeps the events from being recorded again


class View(NamedTuple):
    """An executable of a graph and the events in it."""

    executable: int
    events: EventSet


class GraphCopy:
    """One graph's copy. `why` says why it is not launched any more; None while it is or will be.

    torch's replay also moves the random generators on. A graph that draws random numbers is therefore never
    launched here: its first sampled replay, which is torch's, shows it by the generator's offset.
    """

    def __init__(
        self, driver: Driver, sketch: Sketch, torch: Any, flags: int, tell: Callable[[GraphCopy], None]
    ) -> None:
        self.why: str | None = None
        self.views: list[View] = []
        self.lacking: list[str] = []  # why a view was left out
        self._sketch = sketch
        self._driver = driver
        self._flags = flags
        self._tell = tell  # the writer's thread, which builds it or notes why not
        self._torch = torch
        self._device = torch.cuda.current_device()
        self._asked = False

    def replay(self, cycle: Cycle, phase: str, plain: Callable[[], Any]) -> Any:
        """Run the graph once in a sampled cycle: the copy where it can be, else `plain`, the engine's own."""
        without = self._launched(cycle, phase)
        if without is None:
            return None
        cycle.graphs.append((phase, without))
        if self.why is None and not self.views:
            cycle.owed = True
            if not self._asked:
                self._asked = True
                return self._watched(plain)
        return plain()

    def build(self) -> None:
        """Make the views executable, unless there is a `why`; in the writer's thread.

        A view that cannot be made is left out, and counts as `lacking`.
        """
        made: list[View] = []
        for name in self._sketch.views if self.why is None and not self.views else ():
            try:
                made.append(self._made(name))
            except Exception as error:
                self.lacking.append(str(error))
        if self.lacking and not made:
            self.why = self.lacking.pop()
        self.views = made or self.views
        self._sketch.drop()

    def drop(self) -> None:
        """Give the driver's objects back; while no graph is captured."""
        self.why = self.why or GONE
        views, self.views = self.views, []
        try:
            for view in views:
                self._driver.call("cuGraphExecDestroy", view.executable)
        finally:
            self._sketch.drop()

    def launch(self, view: View) -> None:
        """Put one run on the current stream."""
        self._driver.launch(view.executable, self._torch.cuda.current_stream().cuda_stream)

    def _made(self, name: str) -> View:
        graph, events = self._sketch.view(name)
        try:
            return View(self._driver.instantiate(graph, self._flags), events)
        finally:
            self._driver.call("cuGraphDestroy", graph)

    def _launched(self, cycle: Cycle, phase: str) -> str | None:
        """Launch the view whose turn it is; return why not."""
        if self.why is not None:
            return self.why
        views = self.views
        if not views:
            return MAKING
        view = views[cycle.turn % len(views)]
        held = view.events.cycle
        if not self._free(held, cycle):
            return HELD
        try:
            if self._torch.cuda.current_device() != self._device:
                return ELSEWHERE
            view.events.cycle = cycle
            self.launch(view)
        except Exception as error:
            self.why, view.events.cycle = str(error), held
            self._tell(self)
            return self.why
        cycle.graphs.append((phase, view.events))
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
