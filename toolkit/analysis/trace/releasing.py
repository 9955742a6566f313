"""Going through the kernels of a long trace without keeping in memory what was read of its columns."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from toolkit.schema.trace import Kernels

T = TypeVar("T")

_ITEMS = 32  # launches, phases or cycles: of a thousand kernels each, a quarter MB of every column


def releasing(items: Iterable[T], kernels: Kernels) -> Iterator[T]:
    """Yield items whose kernels the caller looks at; what was read of them is given back now and then."""
    for number, item in enumerate(items, start=1):
        yield item
        if not number % _ITEMS:
            kernels.release()
    kernels.release()


def give_back() -> None:
    """Have the C library return freed memory to the system, where it is glibc: it keeps it otherwise."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 18)
        library.malloc_trim(0)
