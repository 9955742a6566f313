"""Reference servers as processes, and what a client needs to speak with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Server:
    """A running reference server."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        text = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, text, {"Content-Type": "application/json"})
        with _WITHOUT_PROXY.open(request, timeout=60) as answer:
            return json.loads(answer.read())

    def refusal(self, path: str, body: dict[str, Any]) -> str:
        """Return the sentence of an answer 400."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.call(path, body)
        assert caught.value.code == 400
        with caught.value as answer:
            return str(json.loads(answer.read())["error"])

    def generate(self, prompts: list[list[int]], tokens: int) -> list[dict[str, Any]]:
        sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        return list(self.call("/generate", {"input_ids": prompts, "sampling_params": sampling}))

    def outputs(self, prompts: list[list[int]], tokens: int) -> list[list[int]]:
        return [answer["output_ids"] for answer in self.generate(prompts, tokens)]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        if self.process.stdout:
            self.process.stdout.close()


Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts a server with arguments and waits until it is ready."""
    pytest.importorskip("torch")
    started: list[Server] = []

    def start(*arguments: object, python_path: Path | None = None) -> Server:
        log = tmp_path / f"server-{len(started)}.log"
        paths = [str(ROOT), *([str(python_path)] if python_path else [])]
        with log.open("w", encoding="utf-8") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "toolkit.reference", *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        assert process.stdout
        first = process.stdout.readline().split()
        server = Server(process, first[1] if first[:1] == ["ready"] else "", log)
        started.append(server)
        assert server.address, log.read_text(encoding="utf-8")
        return server

    yield start
    for server in started:
        server.end()
