"""A server in a container: own root, own process ids, own network."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolkit.live.proc import live_processes

SITE = Path(__file__).parent / "site"
CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


def _can_unshare() -> bool:
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mount"):
        return False
    tried = subprocess.run(
        ["unshare", "-m", "-p", "-n", "-f", "--mount-proc", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


pytestmark = pytest.mark.skipif(not _can_unshare(), reason="needs root and namespaces")


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[int]:
    """Yield the id, seen from outside, of a server whose temporary folder, ids and network are its own."""
    log = tmp_path / "server.log"
    up = "import fcntl, socket, struct\n"  # what `ip link set lo up` does
    up += "s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 0x49))"
    inside = f'mount -t tmpfs none /mnt && {sys.executable} -c "{up}" && export TMPDIR=/mnt && '
    inside += f"exec {sys.executable} -m sglang.launch_server --tp 2"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["unshare", "-m", "-p", "-n", "-f", "--mount-proc", "sh", "-c", inside],
            env={**os.environ, "PYTHONPATH": str(SITE)},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 20
        while "running on" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)  # its ranks open their sockets
        table = live_processes()
        (server,) = [one for one in table.values() if one.parent == process.pid]
        yield server.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_a_contained_server_is_profiled_from_outside(
    contained: int, toolkit_command: CommandLine, tmp_path: Path
) -> None:
    drive = ("--drive", "tokens=64 context=32", "--cycles", "60", "--overhead-pairs", "0", "--trace")
    done = toolkit_command("profile", "--server-pid", contained, *drive, "-o", "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["used"] == "probe"
    assert contained not in (1, 2)
    (run,) = report["runs"]
    assert (run["ranks"], run["traces"], run["complete"]) == (2, 2, True)
    assert not list(Path("/mnt").glob("toolkit-*"))
    assert {"spans-TP-0.jsonl.gz", "spans-TP-1.jsonl.gz"} <= {
        p.name for p in Path(tmp_path, run["folder"]).iterdir()
    }
