"""A trace from any PyTorch process that was started with KINETO_USE_DAEMON.

Such a process asks a local daemon every few seconds whether it should trace itself. We stand in for
that daemon while one trace is taken. The message's form is that of libkineto's IPC fabric.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.errors import CaptureError
from toolkit.live.network import in_network_of
from toolkit.live.proc import PROC, inner_path, inner_pid
from toolkit.live.server import Server
from toolkit.live.staging import Staging

_ENDPOINT = b"\0dynolog\0"  # an abstract address; the last byte is part of the name
_HEAD = struct.Struct("<Q32s")  # bytes of the body, what the message is
_REQUEST = struct.Struct("<iiq")  # kinds of traces wanted, how many process ids follow, job
_ASKS_EVERY_S = 5.0
_WARM_UP_S = 5.0
_SPARE_S = 2.0
_TRACED_MS = 500
_WAIT_S = 60.0
_LOOK_S = 0.2


def daemon_runs(pid: int) -> bool:
    """Say whether somebody already answers such processes on the network of this one."""
    try:
        return "@dynolog" in (PROC / str(pid) / "net" / "unix").read_text(errors="replace")
    except OSError:
        return False


class OnDemandTrace:
    """One trace of all ranks over the same half second; `collect` returns a file for each rank."""

    def __init__(self, server: Server) -> None:
        temporary = server.environment.get("TMPDIR") or "/tmp"
        self._ranks = {inner_pid(pid): rank for rank, pid in enumerate(server.rank_pids)}
        self._pid = server.rank_pids[0]
        self._staging = Staging(inner_path(self._pid, temporary), temporary, server.uid)

    def collect(self) -> dict[int, Path]:
        """Hand out the request, wait for the files and return them by rank: those that came in time."""
        start_s = time.time() + _ASKS_EVERY_S + _WARM_UP_S + _SPARE_S
        with self._endpoint() as endpoint:
            asked = _hand_out(endpoint, set(self._ranks), self._request(start_s), start_s - _WARM_UP_S)
        if not asked:
            raise CaptureError(
                f"process {self._pid} did not ask for traces within {_ASKS_EVERY_S:.0f} s; "
                "its PyTorch may have been built without that: start the server with the probe instead"
            )
        end = time.monotonic() + _WAIT_S
        found: dict[int, Path] = {}
        while len(found) < len(asked) and time.monotonic() < end:
            time.sleep(_LOOK_S)
            for pid in asked:
                path = self._staging.path / f"trace_{pid}.json"
                if self._ranks[pid] not in found and _is_whole(path):
                    found[self._ranks[pid]] = path
        return found

    def remove(self) -> None:
        """Remove the folder that was made for the files."""
        self._staging.remove()

    def _request(self, start_s: float) -> bytes:
        lines = {
            "ACTIVITIES_LOG_FILE": f"{self._staging.inner}/trace.json",
            "PROFILE_START_TIME": str(int(start_s * 1000)),
            "ACTIVITIES_DURATION_MSECS": str(_TRACED_MS),
            "PROFILE_REPORT_INPUT_SHAPES": "false",
            "PROFILE_WITH_STACK": "false",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items()).encode()

    @contextmanager
    def _endpoint(self) -> Iterator[socket.socket]:
        try:
            endpoint = in_network_of(self._pid, _bound)
        except OSError as error:
            raise CaptureError(
                f"the daemon's address cannot be taken ({error.strerror or error}); "
                f"if a daemon runs, use it: dyno gputrace --pids {self._pid}"
            ) from None
        with endpoint:
            yield endpoint


def _bound() -> socket.socket:
    endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        endpoint.bind(_ENDPOINT)
    except OSError:
        endpoint.close()
        raise
    return endpoint


def _hand_out(endpoint: socket.socket, wanted: set[int], request: bytes, until_s: float) -> set[int]:
    """Answer each wanted process's next question with the request, others with nothing to do."""
    asked: set[int] = set()
    while asked != wanted and time.time() < until_s:
        endpoint.settimeout(max(until_s - time.time(), 0.01))
        try:
            message, address = endpoint.recvfrom(65_536)
        except OSError:
            break
        kind, body = message[8 : _HEAD.size].rstrip(b"\0"), message[_HEAD.size :]
        answer = b""
        if kind == b"ctxt":
            answer = struct.pack("<i", 1)  # processes of its job
        elif kind == b"req" and len(body) >= _REQUEST.size + 4:
            (pid,) = struct.unpack_from("<i", body, _REQUEST.size)  # its own, then its parents'
            if pid in wanted - asked:
                answer = request
                asked.add(pid)
        try:
            endpoint.sendto(_HEAD.pack(len(answer), kind) + answer, address)
        except OSError:  # the process has ended meanwhile
            continue
    return asked


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True
