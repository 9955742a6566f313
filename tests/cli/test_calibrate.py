"""`toolkit calibrate`: a run folder and a table on this CPU, one sentence where nothing can be measured."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from toolkit.cli import main
from toolkit.ingest.run_json import read_run_info
from toolkit.report.calibration_text import calibration_text
from toolkit.schema.calibration import (
    Calibration,
    CollectiveLatency,
    ForwardTime,
    Latency,
    MeasuredModel,
    MemoryBandwidth,
)

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or not sys.platform.startswith("linux"),
    reason="needs torch and Unix sockets",
)
SMALL = ("--device", "cpu", "--quick", "--tp", "1,2", "--sizes", "1K")
NAMES = ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab")
TINY = MeasuredModel(name="tiny", dtype="bfloat16", **dict.fromkeys(NAMES, 4))


def us(median: float) -> Latency:
    return Latency(median=median, p10=median, p90=median)


def collective(algorithm: str, message_bytes: int, median: float) -> CollectiveLatency:
    return CollectiveLatency(
        op="all_reduce",
        algorithm=algorithm,
        group_size=2,
        message_bytes=message_bytes,
        latency_us=us(median),
        in_graph=True,
    )


def verify(tp_size: int, algorithm: str | None, total: float | None) -> ForwardTime:
    return ForwardTime(
        kind="verify",
        tp_size=tp_size,
        batch_size=1,
        num_tokens=4,
        context_tokens=256,
        compute_us=us(500),
        total_us=us(total) if total else None,
        algorithm=algorithm,
        all_reduces=9,
        all_reduce_bytes=512,
        all_gathers=1,
        all_gather_bytes=1024,
        weight_bytes=2_000_000,
        in_graph=True,
    )


MADE = Calibration(
    gpu="NVIDIA H200",
    gpu_count=2,
    torch_version="2.11",
    sizes=(2, 8),
    target=TINY,
    draft=TINY,
    memory=tuple(
        MemoryBandwidth(rank=rank, read_gb_per_s=4000 + rank, copy_gb_per_s=3900) for rank in (0, 1)
    ),
    collectives=tuple(
        collective(by, 1 << power, power) for by in ("nccl", "one_shot") for power in range(10, 23)
    ),
    forwards=(verify(2, "nccl", 700), verify(2, "one_shot", 600), verify(8, None, None)),
    skipped=("vllm_custom all-reduce: vllm is not installed",),
)


def test_tables_have_80_columns_and_a_row_for_each_forward_with_a_column_for_each_algorithm() -> None:
    lines = calibration_text(MADE, "traces/x").splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines if line.startswith(" verify")]
    assert rows == [
        ["verify", "2", "1", "4", "2.0", "500.0", "700.0", "600.0"],
        ["verify", "8", "1", "4", "2.0", "500.0", "-", "-"],
    ]
    assert "Memory: 4,000 to 4,001 GB/s reading, 3,900 GB/s copying (read and written)." in lines
    assert "Not measured: vllm_custom all-reduce: vllm is not installed." in lines


def test_a_handful_of_sizes_is_shown_with_the_smallest_and_the_largest() -> None:
    (row,) = [
        line for line in calibration_text(MADE, "x").splitlines() if line.startswith(" all-reduce nccl")
    ]
    assert row.split() == ["all-reduce", "nccl", "2", "10.0", "12.0", "15.0", "17.0", "20.0", "22.0"]


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["calibrate"]) == 4
    out, error = capsys.readouterr()
    assert out == ""
    assert "needs torch; install toolkit[torch]" in error


@pytest.mark.parametrize("sizes", ["1X", "0", "K", "1.5K", "1KM"])
def test_a_size_that_is_none_is_refused(sizes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--sizes", sizes]) == 2
    assert "write 1K,64K,4M" in capsys.readouterr().err


def test_a_config_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--config", str(tmp_path / "none")]) == 3
    assert "does not exist; give a model's config.json" in capsys.readouterr().err


@needs_torch
def test_a_run_folder_holds_what_is_printed_as_json(toolkit_command: CommandLine, tmp_path: Path) -> None:
    done = toolkit_command("calibrate", *SMALL, "--json", "-o", "runs")
    assert (done.returncode, done.stderr) == (0, "")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-reference-tiny-calibration-cpu")
    assert {path.name for path in folder.iterdir()} == {"calibration.json", "run.json"}
    printed = json.loads(done.stdout)
    assert json.loads((folder / "calibration.json").read_text(encoding="utf-8")) == printed
    assert (printed["schema"], printed["device"], printed["sizes"]) == (
        "toolkit.calibration/1",
        "cpu",
        [1, 2],
    )
    assert {one["kind"] for one in printed["forwards"]} == {"draft_step", "draft_extend", "verify", "decode"}
    info = read_run_info(folder / "run.json")
    assert (info.engine, info.model, info.gpu) == ("reference", "tiny", "CPU")
    assert info.captured["by"] == "calibrate"


@needs_torch
def test_without_a_gpu_it_says_where_to_go(toolkit_command: CommandLine, tmp_path: Path) -> None:
    done = toolkit_command("calibrate", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (4, "")
    assert "finds no GPU on this host; calibrate on a host with GPUs, or this CPU with" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@needs_torch
def test_a_config_that_is_none_is_refused_in_a_sentence(toolkit_command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    done = toolkit_command("calibrate", *SMALL, "--config", tmp_path)
    assert done.returncode == 3
    assert "holds no JSON object" in done.stderr


@needs_torch
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_the_ranks_and_leaves_nothing(
    tmp_path: Path, repository: Path, way: signal.Signals
) -> None:
    out = tmp_path / "runs"
    command = [sys.executable, "-m", "toolkit", "calibrate", *SMALL, "--context", "16384", "-o", str(out)]
    with subprocess.Popen(command, cwd=repository, stderr=subprocess.PIPE, text=True) as process:
        started: list[psutil.Process] = []
        until = time.monotonic() + 60
        while len(started) < 3 and time.monotonic() < until:  # a launcher and its ranks
            time.sleep(0.05)
            started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(way)
        assert process.stderr is not None
        assert process.stderr.read().endswith("toolkit: interrupted\n")
    assert process.returncode == 130
    assert len(started) == 3
    assert not psutil.wait_procs(started, timeout=15)[1]
    assert not out.exists()


@needs_torch
def test_a_rank_that_dies_is_told_with_its_last_words(toolkit_command: CommandLine, tmp_path: Path) -> None:
    engine = tmp_path / "sitecustomize.py"  # what every process of this environment runs first
    engine.write_text(
        "import sys\n"
        "if '--tp-rank' in sys.argv and sys.argv[sys.argv.index('--tp-rank') + 1] == '1':\n"
        "    sys.stderr.write('failed: rank 1: RuntimeError: the link is down\\n')\n"
        "    sys.exit(1)\n",
        encoding="utf-8",
    )
    done = toolkit_command("calibrate", *SMALL, PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[2]}")
    assert done.returncode == 4
    assert "ended before it was done (rank 1: RuntimeError: the link is down); see that" in done.stderr
    assert not (tmp_path / "traces").exists()
