"""Traces that the workers of a Dask cluster read give what is read here, to the bit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.made_trace import Cycles, eagle_cycles

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is an extra: pip install 'toolkit[dask]'"
)
_ROOT = Path(__file__).parents[2]
_CLUSTER = """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a cluster of two processes."""
    program = tmp_path_factory.mktemp("cluster") / "cluster.py"
    program.write_text(_CLUSTER)
    with subprocess.Popen(
        [sys.executable, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"PYTHONPATH": str(_ROOT), "PATH": ""},
    ) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        cluster.communicate("\n", timeout=60)


def _said(folder: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "toolkit", "inspect", "--json", "--no-cache", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": str(_ROOT)},
    )
    return done.returncode, done.stdout, done.stderr


def test_a_cluster_reads_what_is_read_here(tmp_path: Path, address: str) -> None:
    made = eagle_cycles(Cycles(3, clocks_us=40.0, lose=0.002), 12)
    paths = made.write(tmp_path / "run", stacks=True)
    cut = paths[1].read_bytes()
    paths[1].write_bytes(cut[: len(cut) * 9 // 10])
    here = _said(tmp_path, "run")
    assert here[0] == 0 and '"verify"' in here[1] and "made-TP-1" in here[2]
    assert _said(tmp_path, "run", "--dask", address) == here


def test_what_a_worker_refuses_is_refused_under_the_path_given(tmp_path: Path, address: str) -> None:
    (tmp_path / "empty.trace.json").write_text('{"traceEvents": []}')
    here = _said(tmp_path, "empty.trace.json")
    assert here[0] == 3 and "empty.trace.json holds no readable event" in here[2]
    assert _said(tmp_path, "empty.trace.json", "--dask", address) == here


def test_an_address_where_nobody_listens_is_told(tmp_path: Path) -> None:
    (made,) = eagle_cycles(Cycles(1), 3).write(tmp_path)
    code, _, said = _said(tmp_path, made.name, "--dask", "tcp://localhost:9")
    assert code == 2 and "no Dask scheduler answers at tcp://localhost:9" in said
    assert len(said.strip().splitlines()) == 1
