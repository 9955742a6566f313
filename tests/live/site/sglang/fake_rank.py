"""A rank that runs no model: reads cycles from its launcher and speaks the probe's side of the wire."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, TextIO

RANK, TP, STEPS = (int(word) for word in sys.argv[1:4])
FOLDER = Path(os.environ.get("TOOLKIT_PROBE_DIR") or f"{tempfile.gettempdir()}/toolkit-probe-{os.getuid()}")
LOCK = threading.Lock()


class Probe:
    def __init__(self) -> None:
        self.file: TextIO | None = None
        self.path: str | None = None
        self.recorded = 0
        self.wanted: int | None = None
        self.cycle = 0

    def saw(self, batch: int, context: int) -> None:
        with LOCK:
            self.cycle += 1
            if self.file is None or (self.wanted is not None and self.recorded >= self.wanted):
                return
            line = {
                "cycle": self.cycle,
                "t_ns": time.monotonic_ns(),
                "batch_size": batch,
                "padded_batch_size": batch,
                "context_tokens": context,
                "num_steps": STEPS,
                "num_draft_tokens": STEPS + 1,
                "graph": {"draft": True, "verify": True, "draft_extend": True},
                "stage_us": {"draft": 500.0, "verify": 900.0, "draft_extend": 200.0},
                "graph_us": {"draft": 400.0 + RANK, "verify": 800.0, "draft_extend": 150.0},
                "draft_steps_us": [190.0] * (STEPS - 1),
                "correct_drafts": [1] * batch,
            }
            self.file.write(json.dumps(line) + "\n")
            self.recorded += 1

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        with LOCK:
            if request["do"] == "start":
                return self.start(request)
            if request["do"] == "stop":
                self.stop()
            return {
                "ok": True,
                "error": None,
                "wire": 1,
                "pid": os.getpid(),
                "engine": "sglang",
                "engine_version": "0.5.15",
                "tp_rank": RANK,
                "tp_size": TP,
                "dp_rank": 0,
                "pp_rank": 0,
                "mode": "steps",
                "state": "recording" if self.file else "asleep",
                "hooks": {"cycle": "ok", "verify": "ok", "sample": "missing: gone.name"},
                "in_graph": "ok",
                "torch": "2.11.0",
                "recorded": self.recorded,
                "dropped": 0,
                "spans_file": self.path,
                "args": {"tp_size": TP, "num_steps": STEPS, "topk": 1, "num_draft_tokens": STEPS + 1},
            }

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.file:
            return {"ok": False, "error": "another profile is recording"}
        self.path = f"{request['folder']}/spans-TP-{RANK}.jsonl"
        self.file = Path(self.path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by stop
        header = {"schema": "toolkit.spans/1", "tp_rank": RANK, "clock": "host monotonic", "dropped": 0}
        self.file.write(json.dumps(header) + "\n")
        self.recorded, self.wanted = 0, request["cycles"]
        return {"ok": True, "error": None, "spans_file": self.path}

    def stop(self) -> None:
        if self.file:
            self.file.close()
            self.file = None


def talk(end: socket.socket, probe: Probe) -> None:
    started = False
    with end, end.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            started = started or request["do"] == "start"
            lines.write(json.dumps(probe.answer(request)) + "\n")
            lines.flush()
    if started:
        with LOCK:
            probe.stop()


def listen(probe: Probe) -> None:
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = FOLDER / f"{os.getpid()}.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        while True:
            threading.Thread(target=talk, args=(listening.accept()[0], probe), daemon=True).start()


def main() -> None:
    probe = Probe()
    if os.environ.get("FAKE_PROBE") != "0":
        threading.Thread(target=listen, args=(probe,), daemon=True).start()
    for line in sys.stdin:
        seen = json.loads(line)
        probe.saw(seen["batch"], seen["context"])


if __name__ == "__main__":
    main()
