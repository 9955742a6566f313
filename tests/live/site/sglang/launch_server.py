"""A launcher whose ranks are children. A cycle is a pause of 2 ms that keeps one draft of three.

FAKE_PROBE=0 starts ranks without a probe. Every request is printed as a decode line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CYCLE_S = 0.002
KEPT = 1
RANKS: list[subprocess.Popen[bytes]] = []
LOCK = threading.Lock()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def flag(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


TP, STEPS, PORT = int(flag("--tp", "1")), int(flag("--speculative-num-steps", "3")), int(flag("--port", "0"))


def start_ranks() -> None:
    for rank in range(TP):
        command = [f"sglang::scheduler_TP{rank}", "-m", "sglang.fake_rank", str(rank), str(TP), str(STEPS)]
        environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
        RANKS.append(
            subprocess.Popen(command, executable=sys.executable, stdin=subprocess.PIPE, env=environment)
        )


def run_batch(batch: int, prompt: int, tokens: int) -> list[dict[str, Any]]:
    cycles = max(1, tokens // (1 + KEPT))
    begin = time.monotonic()
    with LOCK:
        for cycle in range(cycles):
            line = json.dumps({"batch": batch, "context": prompt + cycle * (1 + KEPT)}).encode() + b"\n"
            for one in RANKS:
                assert one.stdin is not None
                one.stdin.write(line)
                one.stdin.flush()
            time.sleep(CYCLE_S)
    rate = batch * cycles * (1 + KEPT) / (time.monotonic() - begin)
    say(
        f"[2026-01-02 03:04:05 TP0] Decode batch, #running-req: {batch}, #token: {prompt + tokens}, "
        f"token usage: 0.01, accept len: {1 + KEPT:.2f}, accept rate: {KEPT / STEPS:.2f}, cuda graph: True, "
        f"gen throughput (token/s): {rate:.2f}, #queue-req: 0"
    )
    histogram = [0] * (STEPS + 1)
    histogram[KEPT] = cycles
    meta = {
        "prompt_tokens": prompt,
        "completion_tokens": cycles * (1 + KEPT),
        "spec_verify_ct": cycles,
        "spec_num_correct_drafts": cycles * KEPT,
        "spec_num_proposed_drafts": cycles * STEPS,
        "spec_correct_drafts_histogram": histogram,
    }
    return [{"output_ids": [], "meta_info": meta} for _ in range(batch)]


class Endpoint(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        if self.path == "/server_info":
            algorithm = flag("--speculative-algorithm", "EAGLE3")
            told = {
                "model_path": "/srv/models/llama-tiny",
                "api_key": "sk-very-secret",
                "tp_size": TP,
                "speculative_algorithm": algorithm,
                "speculative_draft_model_path": "/srv/models/draft",
                "speculative_num_steps": STEPS,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": STEPS + 1,
                "disable_overlap_schedule": False,
                "attention_backend": "triton",
                "context_length": 4096,
                "version": "0.5.15",
            }
            self.answer(200, told)
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/generate":
            ids = body["input_ids"]
            prompts = ids if isinstance(ids[0], list) else [ids]
            answers = run_batch(len(prompts), len(prompts[0]), body["sampling_params"]["max_new_tokens"])
            self.answer(200, answers if isinstance(ids[0], list) else answers[0])
        elif self.path == "/start_profile":
            assert body["with_stack"] is False
            assert body["record_shapes"] is False
            for rank in range(TP):
                path = Path(body["output_dir"]) / f"1700000000.5-TP-{rank}.trace.json"
                path.write_text('{"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1}]}')
            self.answer(200, {})
        else:
            self.answer(404, {})


def main() -> None:
    if STEPS:
        start_ranks()
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Endpoint)
    server.daemon_threads = True
    say(f"Uvicorn running on http://127.0.0.1:{server.server_address[1]}")
    server.serve_forever()


if __name__ == "__main__":
    main()
