"""A process id leads to the right server and ranks, or to one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import CaptureError
from toolkit.live.attach import attach

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
SITE = Path(__file__).parent / "site"


@pytest.mark.parametrize("probed", [True, False])
def test_a_launcher_leads_to_the_ranks_that_are_its_children(start_server: Callable, probed: bool) -> None:
    server = start_server(tp=2, probed=probed)
    found = attach(server.pid)
    assert (found.engine, found.version, found.pid) == ("sglang", "0.5.15", server.pid)
    assert list(found.rank_pids) == server.ranks()
    assert found.log == server.log


def test_a_rank_leads_to_its_server(start_server: Callable) -> None:
    server = start_server(tp=2)
    found = attach(server.ranks()[1])
    assert found.pid == server.pid
    assert list(found.rank_pids) == server.ranks()


def test_the_port_is_the_one_that_listens(start_server: Callable) -> None:
    server = start_server()
    assert f":{attach(server.pid).port}\n" in server.log.read_text()


def test_a_shell_leads_to_the_server_that_it_started(tmp_path: Path) -> None:
    command = f"{sys.executable} -m sglang.launch_server --tp 1 & echo up; wait"
    with subprocess.Popen(
        ["sh", "-c", command],
        env={**os.environ, "PYTHONPATH": str(SITE), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as shell:
        try:
            assert shell.stdout is not None
            while b"running on" not in shell.stdout.readline():
                pass
            found = attach(shell.pid)
            assert found.pid != shell.pid
            assert found.engine == "sglang"
        finally:
            os.killpg(shell.pid, 9)


def test_a_process_that_is_gone_is_one_sentence() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(CaptureError, match=f"process {process.pid} does not run here"):
            attach(process.pid)


def test_a_process_that_has_ended_but_was_not_waited_for_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(CaptureError, match="does not run"):
            attach(process.pid)


def test_a_process_that_is_no_server_is_named() -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        try:
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sleep"):
                time.sleep(0.01)  # a process that has just been made has no command line, or ours
            with pytest.raises(CaptureError, match=r"\(sleep\) runs no inference engine"):
                attach(process.pid)
        finally:
            process.kill()


def test_a_program_that_only_names_an_engine_is_no_server(tmp_path: Path) -> None:
    log = tmp_path / "vllm"
    log.touch()
    with subprocess.Popen(["tail", "-f", str(log), "/dev/null"]) as process:
        try:
            with pytest.raises(CaptureError, match="runs no inference engine"):
                attach(process.pid)
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_process_of_another_user_is_refused(repository: Path) -> None:
    program = (
        "import os, sys\n"
        "from toolkit.errors import CaptureError\n"
        "from toolkit.live.attach import attach\n"
        "os.setuid(65534)\n"
        "try: attach(int(sys.argv[1]))\n"
        "except CaptureError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(os.getpid())],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "belongs to user 0, not to you (user 65534)" in done.stdout, done.stderr
