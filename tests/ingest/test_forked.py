"""Work shared among forked processes gives what one process gives, errors too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MADE = """
import os, sys
from toolkit.ingest import forked
forked.cores = lambda: 3

def work(number):
    if number == {bad}:
        {fault}
    return number * number, os.getpid() == parent

parent = os.getpid()
{call}
"""


def _run(bad: int, fault: str, call: str) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: one with threads, as a test runner has, is never forked."""
    code = _MADE.format(bad=bad, fault=fault, call=call)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
_MAPPED = "forked.mapped(work, range(10), [1] * 10, worth_sharing={worth})"


def test_results_are_in_order_whoever_worked_them_out() -> None:
    call = f"found = {_MAPPED.format(worth=5)}\nprint([a for a, _ in found], any(b for _, b in found), "
    call += "all(b for _, b in found))"
    assert _run(-1, "pass", call).stdout == f"{[n * n for n in range(10)]} True False\n"


def test_what_is_done_meanwhile_leaves_all_items_to_others() -> None:
    call = "said = []\nfound = forked.mapped(work, range(10), [1] * 10, worth_sharing={worth}, "
    call += "meanwhile=lambda: said.append('meanwhile'))\n"
    call += "print([a for a, _ in found], any(here for _, here in found), *said)"
    squares = [n * n for n in range(10)]
    assert _run(-1, "pass", call.format(worth=5)).stdout == f"{squares} False meanwhile\n"
    assert _run(-1, "pass", call.format(worth=50)).stdout == f"{squares} True\n"
    assert _run(7, "os.getpid() == parent or os._exit(9)", call.format(worth=5)).stdout == (
        f"{squares} True meanwhile\n"
    )


def test_little_work_is_not_shared() -> None:
    call = f"print(all(here for _, here in {_MAPPED.format(worth=50)}))"
    assert _run(-1, "pass", call).stdout == "True\n"


@pytest.mark.parametrize("number", range(10))
def test_a_process_that_dies_costs_no_result(number: int) -> None:
    call = f"print([a for a, _ in {_MAPPED.format(worth=5)}])"
    ran = _run(number, "os.getpid() == parent or os._exit(9)", call)
    assert ran.stdout == f"{[n * n for n in range(10)]}\n"


@pytest.mark.parametrize("number", (0, 1, 2))
def test_an_error_is_raised_as_if_nothing_were_shared_and_leaves_no_process(number: int) -> None:
    call = (
        f"try:\n    {_MAPPED.format(worth=5)}\nexcept KeyError as error:\n    print(error)\n"
        "try:\n    os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError:\n    print('none')"
    )
    assert _run(number, "raise KeyError(number)", call).stdout == f"{number}\nnone\n"


def test_runs_read_by_several_processes_are_those_read_by_one(tmp_path: Path) -> None:
    traces = Path(__file__).parents[2] / "traces"
    code = (
        "import sys; from pathlib import Path; from toolkit.ingest import folders, forked\n"
        "from toolkit import api\n"
        "from toolkit.report.json_text import json_text\n"
        "forked.cores = lambda: int(sys.argv[1])\n"
        "folders._WORTH_SHARING_BYTES = 1\n"
        f"runs = sorted(Path({str(traces)!r}).glob('*tp2*'))[:6]\n"
        "print(json_text(api.inspect_paths(runs)))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code, cores],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        ).stdout
        for cores in ("1", "3")
    ]
    assert said[0] == said[1] and len(said[0]) > 1000
