"""Doing something on the network of another process, as from inside its container."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from toolkit.live.proc import PROC, same_network

T = TypeVar("T")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


def in_network_of(pid: int, call: Callable[[], T]) -> T:
    """Return what a call returns on the network of a process; what it raises is raised.

    A thread can join another network without the rest of its process. OSError where that is not allowed.
    """
    if same_network(pid):
        return call()
    result: list[T] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            _join_network(pid)
            result.append(call())
        except Exception as error:  # handed to the caller's thread
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def _join_network(pid: int) -> None:
    descriptor = os.open(PROC / str(pid) / "ns" / "net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        library = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
        if library.setns(descriptor, _NEW_NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, f"the network of process {pid} cannot be joined: {os.strerror(number)}")
    finally:
        os.close(descriptor)
