"""A headless Chromium driven over a pipe (DevTools protocol), with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)
_READ, _WRITE = 3, 4  # where Chromium reads commands and writes answers


class BrowserError(Exception):
    """The browser did not answer, or refused a command."""


def found_browser() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def installed_browser() -> str | None:
    """Return the path of a Chromium, installed from Debian's packages where that can be done."""
    if (path := found_browser()) is not None or shutil.which("apt-get") is None or os.geteuid() != 0:
        return path
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        subprocess.run(
            ["apt-get", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    return found_browser()


class Browser:
    """One page of one browser. Events that report errors are kept in `errors`."""

    def __init__(self, path: str) -> None:
        """Start the browser at `path` with a profile of its own."""
        self._profile = tempfile.TemporaryDirectory(prefix="page-check-", ignore_cleanup_errors=True)
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
        command = [path, *_FLAGS, *sandbox, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" {_READ}<&{from_us} {_WRITE}>&{to_us}', "sh", *command],
            pass_fds=(from_us, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self._number, self._buffer, self._session = 0, b"", None
        self.errors: list[str] = []
        self.loaded = False
        self._attach()

    def __enter__(self) -> Browser:
        """Return the browser."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the browser and remove its profile."""
        os.close(self._to)
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
        self._profile.cleanup()

    def _attach(self) -> None:
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(30.0)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, seconds: float) -> dict[str, Any]:
        """Return the next message; events are looked at on the way."""
        ends = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(ends - time.monotonic(), 0))
            chunk = os.read(self._from, 1 << 16) if ready else b""
            if not chunk:
                raise BrowserError("the browser does not answer")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._look_at(message)
        return message

    def _look_at(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str([one.get("value") for one in params["args"]]))
        elif method == "Page.loadEventFired":
            self.loaded = True

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.errors, self.loaded = [], False
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not self.loaded:
            self._next(60.0)

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression gives, as plain objects."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"]["exception"].get("description", expression))
        return result["result"].get("value")

    def look(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Set the window's width and the system's colours."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write the whole page as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        made = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))

    def printed(self, path: Path) -> None:
        """Write the page as it prints (PDF)."""
        made = self.ask("Page.printToPDF", printBackground=True)
        path.write_bytes(base64.b64decode(made["data"]))
