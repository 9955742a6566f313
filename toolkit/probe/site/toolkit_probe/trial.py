"""Small graphs of our own, captured before the engine's first: they show which way events get into graphs.

They run while the engine is starting, and poll instead of waiting.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .complaints import complain
from .driver import Driver, DriverError
from .event_set import in_order
from .graph_exec import GraphCopy, View
from .graph_marks import Marks, Sketch

_TRIAL_S = 2.0  # how long one may take
_TRIALS = 5  # runs of each view


class Way(NamedTuple):
    """How graphs are copied: `driver` is None where they cannot be; `why` says what does not work."""

    driver: Driver | None
    kept: bool  # torch has to keep the engine's graphs: they are copied when their capture is over
    why: str | None
    event_pair_us: float | None = None  # from one event to the next with nothing between


def find_way(load: Callable[[Any], Driver], torch: Any) -> Way:
    """Try a copy inside the capture, then one of a graph that torch keeps."""
    try:
        driver = load(torch)
    except Exception as error:
        complain("the driver", error)
        return Way(None, False, str(error) or type(error).__name__)
    refused: list[str] = []
    for name, kept in (("a copy inside the capture", False), ("a copy of a kept graph", True)):
        try:
            event_pair_us = try_copies(driver, torch, kept)
            return Way(driver, kept, "; ".join(refused) or None, event_pair_us)
        except Exception as error:
            why = str(getattr(error, "detail", error)) or type(error).__name__
            refused.append(f"{name}: {why}")
            complain(name, error)
    return Way(None, False, "; ".join(refused))


def try_copies(driver: Driver, torch: Any, kept: bool) -> float:
    """Capture a graph of two nodes, copy it with events around the second, run both; raise what fails.

    Returns the time in us that an event takes from one node to the next.
    """
    nodes = [driver.event() for _ in range(2)]  # the work: event records, since they touch no memory
    graph = _kept_graph(torch) if kept else torch.cuda.CUDAGraph()

    def stream() -> int:
        return int(torch.cuda.current_stream().cuda_stream)

    marks = Marks(driver, stream)
    sketch: Sketch | None = None
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        marks.record_first()
        driver.record_external(nodes[0], stream())
        marks.begin()
        driver.record_external(nodes[1], stream())
        marks.end()
        marks.record_last()
        if not kept:
            sketch = marks.copied()
    if kept:
        graph.instantiate()
    copy = GraphCopy(driver, sketch or marks.copied(graph.raw_cuda_graph()), torch, 0, lambda copy: None)
    try:
        graph.replay()
        copy.build()
        refused = [copy.why] if copy.why else copy.lacking
        if refused:
            raise DriverError(refused[0])
        return statistics.median(_event_pair_us(copy, view) for view in copy.views * _TRIALS)
    finally:
        copy.drop()


def _event_pair_us(copy: GraphCopy, view: View) -> float:
    """Run a view once; return the mean time from one of its events to the next one of all."""
    copy.launch(view)
    _wait(lambda: in_order([view.events]))
    between = 4 if view.events.pairs else 3  # the work's two nodes, the last event and the pair's first
    return float(view.events.first.elapsed_time(view.events.last)) * 1000 / between


def try_nodes(torch: Any) -> str | None:
    """Capture two of torch's external events; return why that does not work, or None."""
    try:
        first, last = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
    except TypeError:
        return f"torch {torch.__version__} has no external events"
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            first.record()
            last.record()
        graph.replay()
        _wait(lambda: last.query() and first.elapsed_time(last) >= 0)
    except Exception as error:
        return f"an event cannot be captured: {error}"
    return None


def _kept_graph(torch: Any) -> Any:
    try:
        return torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:  # before 2.8
        raise DriverError(f"torch {torch.__version__} keeps no graphs") from None


def _wait(passed: Callable[[], bool]) -> None:
    """Ask until it is so. An event that was never recorded may say that it is passed, and have no time."""
    ends = time.monotonic() + _TRIAL_S
    error: Exception | None = None
    while time.monotonic() < ends:
        try:
            if passed():
                return
        except Exception as raised:
            error = raised
        time.sleep(0.001)
    raise error or TimeoutError("events in a graph were not passed in their order")
