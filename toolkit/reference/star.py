"""What the ranks of one host tell each other without a GPU: over Unix sockets, by way of the first rank.

Not gloo: its threads wait for each other by yielding, and on kernels from 6.6 on an all-reduce of a few
bytes then takes up to a tick of the scheduler, 4 ms, where a message over a socket takes 20 us.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

_MEET_S = 60.0
_LOOK_S = 0.01
_HEAD = 8  # bytes of a message's length


class Star:
    """One rank's lines to the others; all ranks of the group must call the same method.

    `lines`: on the first rank one to each of the others, in order; on the others the one to the first.
    """

    def __init__(self, rank: int, lines: Sequence[socket.socket]) -> None:
        self._first = rank == 0
        self._lines = tuple(lines)

    def close(self) -> None:
        """Hang up."""
        for line in self._lines:
            line.close()

    def broadcast(self, data: bytes) -> bytes:
        """Return the first rank's data; what the others give is not looked at."""
        if not self._first:
            return bytes(_receive(self._lines[0]))
        for line in self._lines:
            _send(line, data)
        return data

    def gather(self, data: bytes | memoryview) -> list[bytearray]:
        """Return the data of every rank, in their order."""
        if not self._first:
            _send(self._lines[0], data)
            count = int.from_bytes(_receive(self._lines[0]), "little")
            return [_receive(self._lines[0]) for _ in range(count)]
        parts = [bytearray(data), *map(_receive, self._lines)]
        for line in self._lines:
            _send(line, len(parts).to_bytes(_HEAD, "little"))
            for part in parts:
                _send(line, part)
        return parts

    def add(self, values: Tensor) -> None:
        """Put the sum over the ranks into `values`; the first rank adds, in the order of ranks."""
        if self._first:
            for line in self._lines:
                values += like(values, _receive(line))
            for line in self._lines:
                _send(line, letters(values))
            return
        _send(self._lines[0], letters(values))
        values.copy_(like(values, _receive(self._lines[0])))


def letters(values: Tensor) -> memoryview:
    """Return the bytes of a tensor in memory."""
    return memoryview(values.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def like(values: Tensor, data: bytearray) -> Tensor:
    """Return the tensor of that shape and type whose bytes these are."""
    return torch.frombuffer(data, dtype=values.dtype).view(values.shape)


def meet(rank: int, size: int, path: Path) -> Star:
    """Meet the ranks of a group at a socket of that path; TimeoutError if one does not come."""
    until = time.monotonic() + _MEET_S
    if rank:
        line = _called(path, until)
        _send(line, bytes([rank]))
        return Star(rank, [line])
    found: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(size)
        while len(found) < size - 1:
            door.settimeout(max(until - time.monotonic(), _LOOK_S))
            line, _ = door.accept()
            line.settimeout(None)
            found[_receive(line)[0]] = line
    return Star(rank, [found[other] for other in sorted(found)])


def _called(path: Path, until: float) -> socket.socket:
    """Return a line to the rank that listens there, as soon as it does."""
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(path))
            return line
        except (FileNotFoundError, ConnectionRefusedError):
            line.close()
            if time.monotonic() > until:
                raise TimeoutError(f"no rank listens at {path}") from None
            time.sleep(_LOOK_S)


def _send(line: socket.socket, data: bytes | bytearray | memoryview) -> None:
    line.sendall(len(data).to_bytes(_HEAD, "little") + bytes(data))


def _receive(line: socket.socket) -> bytearray:
    return _exactly(line, int.from_bytes(_exactly(line, _HEAD), "little"))


def _exactly(line: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    rest = memoryview(data)
    while rest:
        read = line.recv_into(rest)
        if not read:
            raise ConnectionError("another rank has ended")
        rest = rest[read:]
    return data
