"""What the probe's tests share: its folder, a rank that it can be asked about, a client."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from toolkit.probe.where import site_folder


def _offer_probe() -> None:
    """Make `toolkit_probe` importable, without the entry points that its folder on sys.path would add."""
    folder = site_folder() / "toolkit_probe"
    spec = spec_from_file_location(
        "toolkit_probe", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["toolkit_probe"] = module
    spec.loader.exec_module(module)


if "toolkit_probe" not in sys.modules:
    _offer_probe()


class Client:
    """One connection to a rank's socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self._held = b""

    def ask(self, **request: Any) -> dict[str, Any]:
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return self.answer()

    def answer(self) -> dict[str, Any]:
        while b"\n" not in self._held:
            received = self.socket.recv(65_536)
            assert received, "the rank closed the connection"
            self._held += received
        line, self._held = self._held.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def connect() -> Iterator[Callable[[Path], Client]]:
    """Return a function that connects to a socket; all are closed afterwards."""
    made: list[Client] = []

    def client(path: Path) -> Client:
        made.append(Client(path))
        return made[-1]

    yield client
    for one in made:
        one.close()


def until(true: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Return what the condition gives once it is true; fail after `seconds`."""
    ends = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.005)
    return found
