"""The rank's socket: one thread, one recording at a time, peers of the same user or root only."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from . import wire
from .complaints import complain
from .socket_folder import listen, own_folder, remove_stale

Answer = Callable[[dict[str, Any], object], dict[str, Any]]
_CLIENTS = 8


class Control(threading.Thread):
    """Answers requests until `close`. `answer(request, client)` does; `gone(client)` hears of closed ones."""

    def __init__(self, answer: Answer, gone: Callable[[object], None]) -> None:
        super().__init__(name="toolkit-probe-control", daemon=True)
        self._answer = answer
        self._gone = gone
        self.pid = os.getpid()
        folder = own_folder()
        remove_stale(folder)
        self._server, self.path = listen(folder)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._pending: dict[socket.socket, bytes] = {}
        self._closed = False

    def run(self) -> None:
        """Serve. A fault with one client closes that client only."""
        while not self._closed:
            try:
                for key, _ in self._selector.select():
                    if key.fileobj is self._server:
                        self._accept()
                    else:
                        self._serve(key.fileobj)  # type: ignore[arg-type]
            except Exception as error:
                if self._closed:
                    return
                complain("serving the socket", error)
                threading.Event().wait(0.1)

    def close(self) -> None:
        """Remove the socket, if this process made it."""
        self._closed = True
        if os.getpid() == self.pid:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.forget()

    def forget(self) -> None:
        """Close the descriptors only: for a forked child, whose parent goes on listening."""
        self._closed = True
        for client in [self._server, *self._pending]:
            client.close()

    def _accept(self) -> None:
        client, _ = self._server.accept()
        if len(self._pending) >= _CLIENTS or not _trusted(client):
            client.close()
            return
        client.settimeout(5)
        self._pending[client] = b""
        self._selector.register(client, selectors.EVENT_READ)

    def _serve(self, client: socket.socket) -> None:
        try:
            received = client.recv(65_536)
        except OSError:
            received = b""
        held = self._pending.get(client, b"") + received
        if not received or len(held) > wire.LONGEST_LINE:
            self._drop(client)
            return
        *lines, rest = held.split(b"\n")
        self._pending[client] = rest
        for line in lines:
            if line.strip() and not self._say(client, self._respond(line, client)):
                self._drop(client)
                return

    def _respond(self, line: bytes, client: object) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("a request is one JSON object a line")
            return self._answer(request, client)
        except Exception as error:
            return {"ok": False, "error": str(error) or type(error).__name__}

    def _say(self, client: socket.socket, answer: dict[str, Any]) -> bool:
        try:
            client.sendall(json.dumps(answer).encode() + b"\n")
            return True
        except OSError:
            return False

    def _drop(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        self._pending.pop(client, None)
        client.close()
        self._gone(client)


def _trusted(client: socket.socket) -> bool:
    """Say whether the peer is this user or root, as the kernel saw it connect."""
    size = struct.calcsize("3i")
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, uid, _ = struct.unpack("3i", credentials)
    return uid in (0, os.getuid())
