"""Talking to the probes of a server's ranks: one JSON object a line each way, over their sockets."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from toolkit.errors import CaptureError
from toolkit.live.sockets import ProbeSocket
from toolkit.probe.wire_names import MAX_CYCLES

_ANSWER_S = 10.0
_FLUSH_S = 60.0  # a stop writes what is still buffered
_LONGEST_ANSWER = 1 << 20


class ProbeConnection:
    """One rank's probe. A recording ends when the connection that started it closes."""

    def __init__(self, place: ProbeSocket) -> None:
        self.place = place
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_ANSWER_S)
        self._rest = b""
        try:
            _connect(self._socket, place)
        except OSError as error:
            self._socket.close()
            raise CaptureError(
                f"the probe in process {place.pid} cannot be reached at {place.folder / place.name} "
                f"({error.strerror or error}); run toolkit profile as the server's user or as root"
            ) from None

    def ask(self, request: dict[str, Any], timeout_s: float = _ANSWER_S) -> dict[str, Any]:
        """Return the answer, which may be a refusal (`ok` false); CaptureError when there is none."""
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while b"\n" not in self._rest:
                chunk = self._socket.recv(65536)
                if not chunk or len(self._rest) > _LONGEST_ANSWER:
                    raise OSError("the connection was closed")
                self._rest += chunk
            line, _, self._rest = self._rest.partition(b"\n")
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise CaptureError(
                f"the probe in process {self.place.pid} did not answer ({error}); "
                "see the server's log, and whether it still runs"
            ) from None
        return answer if isinstance(answer, dict) else {"ok": False, "error": "no JSON object"}

    def status(self) -> dict[str, Any]:
        """Return what the probe says of itself and its rank."""
        return self.ask({"do": "status"})

    def start(
        self,
        folder: str,
        cycles: int | None,
        seconds: float | None,
        steps_every: int,
        not_before_ns: int | None = None,
    ) -> dict[str, Any]:
        """Wake the probe: it writes into `folder`, a path as the rank itself sees it.

        `not_before_ns` is of the host's monotonic clock: no cycle that begins earlier is recorded.
        """
        request: dict[str, Any] = {"do": "start", "folder": folder, "cycles": cycles, "seconds": seconds}
        if not_before_ns is not None:
            request["not_before_ns"] = not_before_ns
        return self.ask({**request, "steps_every": steps_every, "max_cycles": MAX_CYCLES})

    def stop(self) -> dict[str, Any]:
        """Put the probe to sleep; it answers after its file is written."""
        return self.ask({"do": "stop"}, _FLUSH_S)

    def close(self) -> None:
        """Close the connection, which also ends a recording that it started."""
        self._socket.close()


def _connect(end: socket.socket, place: ProbeSocket) -> None:
    """Connect by way of the folder's descriptor: a socket's path may have 107 bytes at most."""
    descriptor = os.open(place.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end.connect(f"/proc/self/fd/{descriptor}/{place.name}")
    finally:
        os.close(descriptor)


class Probes:
    """The probes of all ranks of one server, in order of rank, and what each says of itself."""

    def __init__(self, places: Sequence[ProbeSocket]) -> None:
        self.connections: list[ProbeConnection] = []
        try:
            for place in places:
                self.connections.append(ProbeConnection(place))
            self.statuses = [one.status() for one in self.connections]
        except BaseException:
            self.close()
            raise
        order = sorted(range(len(places)), key=lambda at: self.statuses[at].get("tp_rank") or 0)
        self.connections = [self.connections[at] for at in order]
        self.statuses = [self.statuses[at] for at in order]

    def recorded(self) -> int:
        """Return how many cycles the rank with the fewest has recorded."""
        self.statuses = [one.status() for one in self.connections]
        return min((status.get("recorded") or 0 for status in self.statuses), default=0)

    @property
    def asleep(self) -> bool:
        """Say whether every rank's recording had ended at the last look."""
        return all(status.get("state") != "recording" for status in self.statuses)

    def close(self) -> None:
        """Close all connections."""
        for one in self.connections:
            one.close()

    def __enter__(self) -> Probes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
