"""Joins acceptance counts, which reach the host a cycle later, to the cycle they belong to.

By identity of the result object, not by order: a result whose requests were aborted never arrives, and one
recording may begin between a cycle and its counts.
"""

from __future__ import annotations

from collections import OrderedDict

from .recording import Cycle

_OPEN = 256  # results that may be on their way; an engine has two or three


class Acceptance:
    """Cycles that wait for counts, by the identity of their result.

    `awake` is true while one waits, also when the recording is over: its last counts are still to come.
    """

    def __init__(self) -> None:
        self.awake = False
        self._waiting: OrderedDict[int, Cycle] = OrderedDict()

    def expect(self, result: object, cycle: Cycle) -> None:
        """Join the counts of `result` to `cycle` when they come. The result itself is not kept alive."""
        cycle.awaits = True
        self._waiting[id(result)] = cycle
        self.awake = True
        while len(self._waiting) > _OPEN:
            self._waiting.popitem(last=False)[1].awaits = False

    def arrived(self, result: object, correct: list[int]) -> None:
        """Give the cycle of `result` its correct drafts per request; a bonus token is not one."""
        cycle = self._waiting.pop(id(result), None)
        if cycle is not None:
            cycle.correct = correct
            cycle.awaits = False
        self.awake = bool(self._waiting)

    def clear(self) -> None:
        """Forget all: a recording begins."""
        for cycle in self._waiting.values():
            cycle.awaits = False
        self._waiting.clear()
        self.awake = False
