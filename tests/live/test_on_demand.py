"""Any PyTorch process that asks a daemon for traces gives one; a stand-in asks as libkineto does."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs abstract sockets")
CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]

ASKS = """
import json, mmap, os, socket, struct, sys, time
library = open(sys.argv[1], "r+b")
mapped = mmap.mmap(library.fileno(), 0)  # what shows that a process runs torch
end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
end.bind(b"\\0asks-%d\\0" % os.getpid())
end.settimeout(0.2)
body = struct.pack("<iiqii", 3, 2, 0, os.getpid(), os.getppid())
while True:
    try:
        end.sendto(struct.pack("<Q32s", len(body), b"req") + body, b"\\0dynolog\\0")
        config = dict(line.split("=", 1) for line in end.recv(65536)[40:].decode().splitlines())
        if config:
            assert int(config["PROFILE_START_TIME"]) > time.time() * 1000
            assert config["PROFILE_WITH_STACK"] == "false"
            path = config["ACTIVITIES_LOG_FILE"].replace(".json", f"_{os.getpid()}.json")
            open(path, "w").write(json.dumps({"traceEvents": [], "schemaVersion": 1}))
    except OSError:
        pass
    time.sleep(0.1)
"""


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[int]:
    """Yield the id of a process that asks."""
    library = tmp_path / "libtorch.so"
    library.write_bytes(b"x" * 4096)
    environment = {"KINETO_USE_DAEMON": "1", "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", ASKS, str(library)], env=environment) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        end = time.monotonic() + 10
        while "libtorch" not in maps.read_text() and time.monotonic() < end:
            time.sleep(0.02)
        yield process.pid
        process.kill()


def test_a_process_that_asks_gives_a_trace(asking: int, toolkit_command: CommandLine, tmp_path: Path) -> None:
    done = toolkit_command("profile", "--server-pid", asking, "-o", "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["used"] == "on-demand trace"
    trace = tmp_path / report["runs"][0]["folder"] / "trace-TP-0.trace.json.gz"
    assert json.loads(gzip.decompress(trace.read_bytes()))["schemaVersion"] == 1
    assert not list(tmp_path.glob("toolkit-recording-*"))


def test_a_process_that_cannot_be_looked_at_is_told_what_it_needs(
    toolkit_command: CommandLine, tmp_path: Path
) -> None:
    library = tmp_path / "libtorch.so"
    library.write_bytes(b"x" * 4096)
    program = ASKS.split("end =")[0] + "print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(library)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        done = toolkit_command("profile", "--server-pid", process.pid)
        process.kill()
    assert done.returncode == 4
    assert "needs KINETO_USE_DAEMON=1" in done.stderr
