"""What ranks without a GPU exchange: over sockets, by way of the first."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not hasattr(socket, "AF_UNIX"):
    pytest.skip("needs Unix sockets", allow_module_level=True)

from toolkit.reference.collectives import Group, all_gather, all_reduce  # noqa: E402
from toolkit.reference.star import Star, meet  # noqa: E402

RANKS = 3


@pytest.fixture
def together(tmp_path: Path) -> Callable[[Callable[[Star, int], Any]], list[Any]]:
    """Return a function that lets three ranks meet and do the same, and returns what each has."""

    def run(what: Callable[[Star, int], Any]) -> list[Any]:
        found: list[Any] = [None] * RANKS

        def rank(place: int) -> None:
            star = meet(place, RANKS, tmp_path / "ranks")
            try:
                found[place] = what(star, place)
            finally:
                star.close()

        threads = [threading.Thread(target=rank, args=(place,), daemon=True) for place in (2, 1, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return found

    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_rank_has_the_same_sum(together: Any, dtype: Any) -> None:
    def add(star: Star, place: int) -> Any:
        values = torch.full((2, 3), place + 1.0, dtype=dtype)
        return all_reduce(values, Group(place, RANKS, star), "x")

    assert all(torch.equal(one, torch.full((2, 3), 6.0, dtype=dtype)) for one in together(add))


def test_what_is_larger_than_a_socket_holds_is_added_too(together: Any) -> None:
    def add(star: Star, place: int) -> float:
        values = torch.ones(2_000_000)
        star.add(values)
        return float(values.sum())

    assert together(add) == [RANKS * 2_000_000.0] * RANKS


def test_ranks_parts_are_gathered_side_by_side(together: Any) -> None:
    def gather(star: Star, place: int) -> Any:
        values = torch.tensor([[10.0 * place, 1.0], [2.0, 3.0]])
        return all_gather(values, Group(place, RANKS, star), "x").tolist()

    whole = [[0.0, 1.0, 10.0, 1.0, 20.0, 1.0], [2.0, 3.0] * 3]
    assert together(gather) == [whole] * RANKS


def test_the_first_ranks_words_reach_all_and_empty_ones_too(together: Any) -> None:
    def broadcast(star: Star, place: int) -> list[bytes]:
        return [star.broadcast(b"first" if place == 0 else b"no"), star.broadcast(b"")]

    assert together(broadcast) == [[b"first", b""]] * RANKS


def test_a_rank_that_has_ended_is_an_error_and_no_wait_for_ever() -> None:
    here, there = socket.socketpair()
    there.close()
    star = Star(1, [here])
    with pytest.raises(OSError):
        star.broadcast(b"")
    star.close()
