"""The rows of a file's parts as those of one pass over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from toolkit.ingest.traces.event_rows import EventRows
from toolkit.ingest.traces.row_blocks import NAME, START
from toolkit.schema.trace import Int64s


class MergedRows:
    """Rows of all parts in file order; names are numbered in the order in which the file brings them."""

    def __init__(self, parts: Sequence[EventRows]) -> None:
        self._parts = parts
        ids: dict[bytes, int] = {}
        self._new_ids = [
            np.array([ids.setdefault(name, len(ids)) for name in part.name_ids], dtype=np.int64)
            for part in parts
        ]
        self.names = tuple(ids)
        self.bad_times = sum(part.bad_times for part in parts)
        self.bad_ids = sum(part.bad_ids for part in parts)
        self.rank_labels = set().union(*(part.rank_labels for part in parts))

    def rows(self, kind: int) -> int:
        """Return how many events of a kind there are."""
        return sum(len(part.kinds[kind]) for part in self._parts)

    def column(self, kind: int, index: int) -> Iterator[Int64s]:
        """Yield one column in file order, block by block."""
        for part, new_ids in zip(self._parts, self._new_ids, strict=True):
            for block in part.kinds[kind].column(index):
                yield new_ids[block] if index == NAME else block

    def order(self, kind: int) -> Int64s | None:
        """Return the order of the rows by start, equal ones as in the file; None if they are in it."""
        last = np.iinfo(np.int64).min
        for block in self.column(kind, START):
            if block[0] < last or (block[1:] < block[:-1]).any():
                starts = np.concatenate(list(self.column(kind, START)))
                return np.asarray(np.argsort(starts, kind="stable"))
            last = block[-1]
        return None

    def sorted_column(self, kind: int, index: int, order: Int64s | None) -> Iterator[Int64s]:
        """Yield one column in that order."""
        if order is None:
            yield from self.column(kind, index)
        else:
            yield np.concatenate(list(self.column(kind, index)))[order]
