"""Requests to a server on this host, also one that listens on the network of its container."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from toolkit.live.network import in_network_of
from toolkit.live.server import Server


class HttpError(Exception):
    """A request that was refused, failed or was not answered; `status` is None without an answer."""

    def __init__(self, path: str, status: int | None, reason: str) -> None:
        super().__init__(f"{path}: {f'HTTP {status}, ' if status else ''}{reason}")
        self.status = status
        self.reason = reason


class ServerHttp:
    """The HTTP endpoint of one server. Proxies are never used; keys are sent and kept nowhere."""

    def __init__(self, server: Server) -> None:
        secure = bool(server.flags.get("ssl_certfile"))
        self.port = server.port
        self.base = f"{'https' if secure else 'http'}://{server.host}:{server.port}"
        self._pid = server.pid
        key = server.flags.get("api_key") or server.environment.get("VLLM_API_KEY")
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key if isinstance(key, str) else key[0]}"
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is this host
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def text(self, path: str, timeout_s: float = 10) -> str:
        """Return what GET answers; HttpError if it does not."""
        return self._ask(path, None, timeout_s).decode(errors="replace")

    def json(self, path: str, body: Any = None, timeout_s: float = 10) -> Any:
        """Return the JSON that GET, or POST where there is a body, answers; HttpError if it does not."""
        raw = self._ask(path, body, timeout_s)
        try:
            return json.loads(raw)
        except ValueError:
            raise HttpError(path, None, "the answer is not JSON") from None

    def post(self, path: str, body: Any, timeout_s: float = 10) -> str:
        """Return the text that POST answers; HttpError if it does not."""
        return self._ask(path, body, timeout_s).decode(errors="replace")

    def _ask(self, path: str, body: Any, timeout_s: float) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, content, self._headers)

        def ask() -> bytes:
            try:
                with self._opener.open(request, timeout=timeout_s) as answer:
                    found: bytes = answer.read()
                    return found
            except urllib.error.HTTPError as error:
                with error:
                    said = error.read(400).decode(errors="replace")
                raise HttpError(path, error.code, " ".join(said.split())[:200] or error.reason) from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                raise HttpError(path, None, str(reason) or type(reason).__name__) from None

        try:
            return in_network_of(self._pid, ask)
        except OSError as error:
            raise HttpError(path, None, f"{error.strerror or error}; run as root") from None
