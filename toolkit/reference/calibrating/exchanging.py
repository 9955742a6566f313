"""The collectives of a forward left out, counted or replaced: through the module that all of them call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from toolkit.reference import collectives
from toolkit.reference.collectives import Group
from toolkit.reference.one_shot import OneShot

Exchange = Callable[[Tensor, Group, str], Tensor]


@contextmanager
def replaced(all_reduce: Exchange, all_gather: Exchange) -> Iterator[None]:
    """Let forwards inside the block exchange by these."""
    module: Any = collectives
    before = module.all_reduce, module.all_gather
    module.all_reduce, module.all_gather = all_reduce, all_gather
    try:
        yield
    finally:
        module.all_reduce, module.all_gather = before


@contextmanager
def left_out() -> Iterator[None]:
    """Leave the exchanges out; what a rank does around them, such as copies of a gather, stays."""

    def keep(values: Tensor, group: Group, name: str) -> Tensor:
        return values

    def widen(values: Tensor, group: Group, name: str) -> Tensor:
        if group.size == 1:
            return values
        gathered = values.new_empty((group.size * values.shape[0], *values.shape[1:]))
        return collectives.side_by_side(gathered, values, group)

    with replaced(keep, widen):
        yield


@contextmanager
def counted() -> Iterator[list[tuple[str, int]]]:
    """Yield a list that fills with the exchanges: which, and how many bytes as nccl-tests count them."""
    seen: list[tuple[str, int]] = []
    reduce, gather = collectives.all_reduce, collectives.all_gather

    def counting_reduce(values: Tensor, group: Group, name: str) -> Tensor:
        if group.size > 1:
            seen.append(("all_reduce", values.numel() * values.element_size()))
        return reduce(values, group, name)

    def counting_gather(values: Tensor, group: Group, name: str) -> Tensor:
        if group.size > 1:
            seen.append(("all_gather", group.size * values.numel() * values.element_size()))
        return gather(values, group, name)

    with replaced(counting_reduce, counting_gather):
        yield seen


@contextmanager
def reduced_by(one_shot: OneShot) -> Iterator[None]:
    """Let all-reduces that it takes be one-shot ones."""
    reduce, gather = collectives.all_reduce, collectives.all_gather

    def in_one_shot(values: Tensor, group: Group, name: str) -> Tensor:
        if group.size > 1 and one_shot.takes(values):
            one_shot.add(values)
            return values
        return reduce(values, group, name)

    with replaced(in_one_shot, gather):
        yield
