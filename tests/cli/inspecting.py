"""What tests of `toolkit inspect` as it is typed have in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.made_trace import Cycles, Engine, eagle_cycles
from toolkit.cli import main

TP2 = "2026-11-29-sglang-llama8b-dummy-tp2-k3-b1"
VLLM = (
    "INFO 06-06 14:20:{second:02d} [loggers.py:116] Engine 000: Avg prompt throughput: {prompt} tokens/s, "
    "Avg generation throughput: {tok_s} tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 9.5%, Prefix cache hit rate: 0.5%\n"
    "INFO 06-06 14:20:{second:02d} [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.50, "
    "Accepted throughput: 60.00 tokens/s, Drafted throughput: 120.00 tokens/s, Accepted: 600 tokens, "
    "Drafted: 1200 tokens, Per-position acceptance rate: 0.800, 0.500, 0.200, "
    "Avg Draft acceptance rate: 50.0%\n"
)


class Done(NamedTuple):
    code: int
    out: str
    err: str


Inspect = Callable[..., Done]


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str]) -> Inspect:
    """Return a function that runs `toolkit inspect` in this process and checks how it ends."""

    def run(*arguments: object) -> Done:
        code = main(["inspect", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "this is a bug" not in err
        if code:
            assert err.startswith("toolkit: ")
            assert err.count("\n") == 1  # one sentence
            assert out == ""
        return Done(code, out, err)

    return run


@pytest.fixture
def log(traces: Path) -> str:
    """Return the server log of a recorded run (SGLang, TP 2, 3 steps)."""
    return (traces / TP2 / "server.log").read_text(encoding="utf-8")


def made(folder: Path, ranks: int = 1, **how: Any) -> list[Path]:
    return eagle_cycles(Cycles(ranks), 6, Engine()).write(folder, **how)


def put(folder: Path, name: str, content: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    trace = json.loads(path.read_text(encoding="utf-8"))
    change(trace)
    path.write_text(json.dumps(trace), encoding="utf-8")


def without_kernels(trace: dict[str, Any]) -> None:
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event["cat"] != "kernel"]
