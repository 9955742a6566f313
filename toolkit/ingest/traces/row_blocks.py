"""Rows of events as they are read: blocks in memory, then in a nameless file once there are many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from toolkit.schema.trace import Int64s

COLUMNS = 8
NAME, START, DURATION, ID, LANE = range(5)  # of every event
GROUP_SIZE, MESSAGE_BYTES, NODE = range(5, COLUMNS)  # of kernels
_MOST_BYTES_IN_MEMORY = 6 << 20


@dataclass
class RowBlocks:
    """Blocks of one kind of event, a row each column, in the order in which the events were read.

    A forked process writes into the file that it was given and returns the rest by value; whoever
    takes that over gives the same file back with `spool`.
    """

    spool: BinaryIO | None = None
    _places: list[tuple[int, int]] = field(default_factory=list)  # in the file: offset and rows
    _blocks: list[Int64s] = field(default_factory=list)
    _bytes: int = 0

    def append(self, block: Int64s) -> None:
        """Add rows: an array of `COLUMNS` by their number."""
        self._blocks.append(block)
        self._bytes += block.nbytes
        if self.spool is not None and self._bytes > _MOST_BYTES_IN_MEMORY:
            for waiting in self._blocks:
                offset = self.spool.seek(0, 2)
                self.spool.write(np.ascontiguousarray(waiting).data)
                self._places.append((offset, waiting.shape[1]))
            self.spool.flush()
            self._blocks, self._bytes = [], 0

    def __len__(self) -> int:
        return sum(rows for _, rows in self._places) + sum(map(len, self._last(0)))

    def _last(self, index: int) -> Iterator[Int64s]:
        return (block[index] for block in self._blocks)

    def column(self, index: int) -> Iterator[Int64s]:
        """Yield one column, block by block."""
        for offset, rows in self._places:
            assert self.spool is not None
            self.spool.seek(offset + index * rows * 8)
            yield np.frombuffer(self.spool.read(rows * 8), dtype=np.int64)
        yield from self._last(index)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "spool": None}
