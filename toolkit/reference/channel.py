"""Commands for all ranks: rank 0 takes them from its clients, every rank carries them out in order."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Sequence
from typing import Any

from toolkit.reference.star import Star

Command = dict[str, Any]
_HEARTBEAT_S = 60.0  # an idle server still says something


class Ticket:
    """A client's wait for the answer of one command."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._answer: Any = None

    def settle(self, answer: Any) -> None:
        self._answer = answer
        self._done.set()

    def answer(self, timeout_s: float | None = None) -> Any:
        """Wait for the answer; TimeoutError if it does not come."""
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s} s")
        return self._answer


class Channel:
    """Rank 0 puts commands in from any thread; `receive` gives all ranks the same ones."""

    def __init__(self, rank: int, control: Star | None = None) -> None:
        self._rank, self._control = rank, control
        self._queue: queue.Queue[list[Command]] = queue.Queue()
        self._tickets: dict[int, Ticket] = {}
        self._lock = threading.Lock()
        self._next = 0

    def put(self, commands: Sequence[Command]) -> list[Ticket]:
        """Hand commands to all ranks, to be taken together (rank 0 only); `settle` answers each ticket."""
        tickets, numbered = [], []
        with self._lock:
            for command in commands:
                number, self._next = self._next, self._next + 1
                tickets.append(Ticket())
                self._tickets[number] = tickets[-1]
                numbered.append({**command, "number": number})
        self._queue.put(numbered)
        return tickets

    def settle(self, number: int, answer: Any) -> None:
        """Answer a command; on ranks other than 0 nobody waits."""
        with self._lock:
            ticket = self._tickets.pop(number, None)
        if ticket:
            ticket.settle(answer)

    def receive(self, wait: bool) -> list[Command]:
        """Return the commands that came in; with `wait`, wait for one (or for a heartbeat)."""
        commands = self._taken(wait) if self._rank == 0 else []
        if self._control is None:
            return commands
        return self._shared(self._control, commands)

    def _taken(self, wait: bool) -> list[Command]:
        commands: list[Command] = []
        try:
            commands += self._queue.get(timeout=_HEARTBEAT_S) if wait else self._queue.get_nowait()
            while True:
                commands += self._queue.get_nowait()
        except queue.Empty:
            return commands

    @staticmethod
    def _shared(control: Star, commands: list[Command]) -> list[Command]:
        text = json.dumps(commands) if commands else ""
        shared = control.broadcast(text.encode())
        return list(json.loads(shared)) if shared else []
