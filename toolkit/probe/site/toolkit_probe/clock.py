"""Stamps: points in time on the GPU's queue, or on the host where no GPU works.

A stamp costs the engine one event record. Nothing here waits for the GPU.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

_POOL = 4096  # events kept for reuse


class Clock(Protocol):
    """How stamps are taken, asked and given back. `span_us` is None while one of both is not done."""

    name: str

    def place(self) -> Any: ...

    def stamp(self, place: Any) -> Any: ...

    def done(self, stamp: Any) -> bool: ...

    def span_us(self, start: Any, end: Any) -> float | None: ...

    def passed_us(self, start: Any, end: Any) -> float: ...

    def free(self, stamp: Any) -> None: ...

    def adopt(self) -> None: ...


class HostStamps:
    """Host time: for CPU engines, whose calls return when the work is done."""

    name = "host"

    def place(self) -> None:
        """Return where stamps go: there is one host."""

    def stamp(self, place: Any) -> int:
        """Return now, in ns."""
        return time.perf_counter_ns()

    def done(self, stamp: int) -> bool:
        """Say whether the stamp's work is done: a call that returned is."""
        return True

    def span_us(self, start: int, end: int) -> float:
        """Return the time between two stamps in us."""
        return (end - start) / 1000

    def passed_us(self, start: int, end: int) -> float:
        """Return the same."""
        return (end - start) / 1000

    def free(self, stamp: int) -> None:
        """Give a stamp back: a number needs no pool."""

    def adopt(self) -> None:
        """Make the calling thread fit to ask: any is."""


class CudaStamps:
    """CUDA events from a pool, recorded on the stream that the cycle runs on."""

    name = "cuda"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._event = torch.cuda.Event
        self._pool: list[Any] = []
        self._device = torch.cuda.current_device()
        # torch makes an object to tell the current stream, which takes it 10 us; its address takes none
        self._address_of = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
        self._address: Any = None
        self._stream: Any = None

    def place(self) -> Any:
        """Return the engine's current stream."""
        if self._address_of is None:
            return self.torch.cuda.current_stream()
        address = self._address_of(self._device)
        if self._stream is None or address != self._address:
            self._stream, self._address = self.torch.cuda.current_stream(), address
        return self._stream

    def stamp(self, place: Any) -> Any:
        """Record an event behind what is queued on the stream; None is the current one."""
        try:
            event = self._pool.pop()
        except IndexError:
            event = self._event(enable_timing=True)
        event.record(self.place() if place is None else place)
        return event

    def done(self, stamp: Any) -> bool:
        """Say whether the GPU has passed the event."""
        return bool(stamp.query())

    def span_us(self, start: Any, end: Any) -> float | None:
        """Return the GPU time between two events in us; None when the later one is not passed yet."""
        return self.passed_us(start, end) if end.query() else None

    def passed_us(self, start: Any, end: Any) -> float:
        """Return the GPU time between two events that are known to be passed, in us."""
        return float(start.elapsed_time(end)) * 1000  # elapsed_time is in ms

    def free(self, stamp: Any) -> None:
        """Give an event back."""
        if len(self._pool) < _POOL:
            self._pool.append(stamp)

    def adopt(self) -> None:
        """Set the engine's device in the calling thread, or asking would open a context on device 0."""
        self.torch.cuda.set_device(self._device)


_made: list[CudaStamps] = []  # of this process, with the events of earlier recordings


def clock_of_process() -> Clock:
    """Return the clock for this process: the GPU's where torch uses one. Call it in the engine's thread."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available() or not cuda.is_initialized():
        return HostStamps()
    if not _made or _made[0].torch is not torch:
        _made[:] = [CudaStamps(torch)]
    return _made[0]
