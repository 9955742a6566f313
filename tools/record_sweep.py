"""Start one SGLang server for each setting, profile each with `toolkit profile`, and end them all.

    PYTHONPATH=site python tools/record_sweep.py --target models/llama --draft models/eagle3 --tp 4 \\
        --server "steps=0" --server "steps=3" --server "steps=3 name=nccl args=--disable-custom-all-reduce" \\
        --drive "batch=1,8 tokens=256 context=256" --trace-of 3 --out traces

All servers are up at once, so that they see the same host: only one is driven at a time, the others
sleep (`--sleep-on-idle`). What a server printed stays in OUT/logs. Needs SGLang and the toolkit's own
dependencies in this Python; weights are random, acceptance is simulated (`--accept-length`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

_FIRST_PORT, _PORTS_APART = 20000, 1500  # SGLang takes further ports above its own
_FLAGS = shlex.split(
    "--load-format dummy --skip-tokenizer-init --skip-server-warmup --attention-backend triton "
    "--sampling-backend pytorch --grammar-backend none --disable-prefill-cuda-graph --cuda-graph-max-bs 8 "
    "--mem-fraction-static 0.85 --max-total-tokens 16384 --max-running-requests 16 --sleep-on-idle"
)


@dataclass(frozen=True)
class Setting:
    """One server: draft steps (0 decodes plainly), a suffix for its folders, further flags."""

    steps: int
    name: str = ""
    args: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"k{self.steps}" + (f"-{self.name}" if self.name else "")


def say(text: str) -> None:
    """Print a line now: a sweep takes minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def setting_of(text: str) -> Setting:
    """Return the setting of `steps=3 name=nccl args=--a,--b`."""
    words = dict(word.split("=", 1) for word in text.split())
    return Setting(
        int(words["steps"]), words.get("name", ""), [a for a in words.get("args", "").split(",") if a]
    )


class Server:
    """A server in a process group of its own."""

    def __init__(self, options: argparse.Namespace, setting: Setting, place: int) -> None:
        self.setting, self.port = setting, _FIRST_PORT + place * _PORTS_APART
        self.log = options.out / "logs" / f"{setting.label}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "sglang.launch_server", "--model-path", options.target, *_FLAGS]
        command += ["--port", str(self.port), "--tp", str(options.tp), "--context-length", "8192"]
        if setting.steps:
            command += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", options.draft]
            command += ["--speculative-draft-load-format", "dummy", "--speculative-eagle-topk", "1"]
            command += ["--speculative-num-steps", str(setting.steps)]
            command += ["--speculative-num-draft-tokens", str(setting.steps + 1)]
        env = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "SGLANG_SKIP_P2P_CHECK": "1",
            "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "false",
            "SGLANG_SIMULATE_ACC_LEN": str(min(options.accept_length, setting.steps + 1)),
            "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
            "PYTHONPATH": os.pathsep.join([options.probe, os.environ.get("PYTHONPATH", "")]),
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *setting.args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    def up(self) -> bool:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=30).close()
            return True
        return False

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def wait_up(servers: list[Server], seconds: float) -> list[Server]:
    """Return the servers that came up."""
    end, left, up = time.monotonic() + seconds, list(servers), []
    while left and time.monotonic() < end:
        for server in list(left):
            if server.process.poll() is not None:
                say(f"{server.setting.label}: ended with {server.process.returncode}, see {server.log}")
                left.remove(server)
            elif server.up():
                left.remove(server)
                up.append(server)
        time.sleep(1)
    for server in left:
        say(f"{server.setting.label}: not up in time, see {server.log}")
    return sorted(up, key=lambda server: server.port)


def profile(server: Server, options: argparse.Namespace) -> bool:
    """Profile one server; its folders go to OUT/<label>."""
    command = [sys.executable, "-m", "toolkit", "profile", "--server-pid", str(server.process.pid)]
    command += ["--drive", options.drive, "-o", str(options.out / server.setting.label)]
    command += [
        "--overhead-pairs",
        str(options.overhead_pairs if server.setting.label == options.overhead_of else 0),
    ]
    if server.setting.label in options.trace_of:
        command.append("--trace")
    begin = time.monotonic()
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL)
    say(f"{server.setting.label}: exit {done.returncode} in {time.monotonic() - begin:.0f} s")
    return done.returncode == 0


def main() -> int:
    """Run the sweep; the exit code is 0 if every server was profiled."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--server", action="append", required=True, type=setting_of)
    parser.add_argument("--drive", default="batch=1,8 tokens=256 context=256")
    parser.add_argument("--accept-length", type=float, default=2.0)
    parser.add_argument("--trace-of", nargs="*", default=[], help="labels (k3, k3-nccl) to trace kernels of")
    parser.add_argument("--overhead-of", default="", help="label to measure the probe's cost on")
    parser.add_argument("--overhead-pairs", type=int, default=3)
    parser.add_argument("--start-seconds", type=float, default=280)
    parser.add_argument("--out", type=Path, default=Path("traces"))
    options = parser.parse_args()
    found = subprocess.run(
        [sys.executable, "-m", "toolkit", "probe-path"], capture_output=True, text=True, check=True
    )
    options.probe = found.stdout.strip()
    begin = time.monotonic()
    servers = []
    try:
        for place, setting in enumerate(options.server):
            servers.append(Server(options, setting, place))
        up = wait_up(servers, options.start_seconds)
        say(f"{len(up)} of {len(servers)} servers up after {time.monotonic() - begin:.0f} s")
        done = [profile(server, options) for server in up]
        return 0 if len(done) == len(servers) and all(done) else 1
    finally:
        for server in servers:
            server.end()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
