"""Commands that start processes end by SIGTERM, and with their terminal, as by Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let an ordinary kill or a closed terminal end the block as Ctrl-C does: no process is left running."""
    if threading.current_thread() is not threading.main_thread():  # others may set no handler
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in ending_signals()}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that ask to end, Ctrl-C's aside; under nohup a closed terminal does not."""
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hung_up]
