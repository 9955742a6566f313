"""`toolkit profile` against stand-in servers that are real processes."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]
QUICK = ("--cycles", "60", "--overhead-pairs", "0")


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_socket())


def only_run(folder: Path) -> tuple[Path, dict[str, Any]]:
    (run,) = folder.iterdir()
    return run, json.loads((run / "run.json").read_text())


def span_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_a_driven_load_becomes_a_run_folder_that_inspect_and_fit_take(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server(tp=2)
    drive = ("--drive", "batch=1,2 tokens=64 context=32")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "toolkit.profile/1"
    assert (report["used"], report["why_not_better"]) == ("probe", None)
    assert [(run["ranks"], run["complete"], run["dropped"]) for run in report["runs"]] == [(2, True, 0)] * 2
    folders = [tmp_path / run["folder"] for run in report["runs"]]
    assert all(folder.name.startswith(time.strftime("%Y-")) for folder in folders)
    info = json.loads((folders[1] / "run.json").read_text())
    known = {"engine": "sglang", "engine_version": "0.5.15", "tp_size": 2, "num_steps": 3, "batch_size": 2}
    assert known.items() <= info.items()
    assert info["captured"]["complete"] is True
    assert info["model"] == "llama-tiny"
    header, *cycles = span_lines(folders[1] / "spans-TP-1.jsonl.gz")
    assert header["tp_rank"] == 1
    assert {cycle["batch_size"] for cycle in cycles} == {2}
    assert len(cycles) >= 60
    inspected = json.loads(toolkit_command("inspect", "out", "--json").stdout)
    cells = [cell for run in inspected["runs"] for cell in run["configurations"]]
    assert [cell["batch_size"] for cell in cells] == [1, 2]
    assert all(cell["sources"] == ["spans", "log", "client"] for cell in cells)
    assert all(cell["acceptance"]["accept_length"] == 2 for cell in cells)
    fitted = toolkit_command("model", "fit", "out", "--json")
    assert fitted.returncode == 0, fitted.stderr


def test_no_run_holds_a_secret_or_a_place(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server("--api-key", "sk-on-the-command-line", SGLANG_TOKEN="sk-in-the-environment")
    drive = ("--drive", "tokens=64 context=32")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out", *QUICK)
    assert done.returncode == 0, done.stderr
    run, _ = only_run(tmp_path / "out")
    for path in run.iterdir():
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        assert "sk-" not in text, path
        assert "/srv/models" not in text, path
        assert str(tmp_path) not in text, path


def test_a_dry_run_names_the_ways_and_touches_nothing(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server(tp=2, probed=False)
    before, log = tree(tmp_path), server.log.read_text()
    done = toolkit_command("profile", "--server-pid", server.pid, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    ways = {way["name"]: way for way in report["ways"]}
    assert list(ways) == ["probe", "engine profiler", "log and metrics", "on-demand trace"]
    assert [way["usable"] for way in ways.values()] == [False, True, True, False]
    assert "PYTHONPATH=" in ways["probe"]["needs"]
    assert "-m sglang.launch_server --tp 2" in ways["probe"]["needs"]
    assert (report["used"], report["runs"]) == ("engine profiler", [])
    assert (tree(tmp_path), server.log.read_text()) == (before, log)


def test_a_trace_is_taken_on_all_ranks_and_what_it_slowed_is_marked(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server(tp=2)
    drive = ("--drive", "tokens=64 context=32", "--trace")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out", *QUICK)
    assert done.returncode == 0, done.stderr
    run, info = only_run(tmp_path / "out")
    assert {"trace-TP-0.trace.json.gz", "trace-TP-1.trace.json.gz"} <= {path.name for path in run.iterdir()}
    (window,) = info["captured"]["excluded_windows"]
    spans = span_lines(run / "spans-TP-0.jsonl.gz")[1:]
    inside = [line for line in spans if window["from_ns"] <= line["t_ns"] <= window["to_ns"]]
    assert 0 < len(inside) < len(spans)
    assert info["with_stack"] is False
    (cell,) = json.loads(toolkit_command("inspect", "out", "--json").stdout)["runs"][0]["configurations"]
    assert cell["cycles"] == len(spans) - len(inside)


def test_without_a_probe_the_next_best_way_is_used_and_said(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server(probed=False)
    drive = ("--drive", "tokens=64 context=32")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out", *QUICK)
    assert done.returncode == 0, done.stderr
    run, info = only_run(tmp_path / "out")
    assert info["captured"]["how"] == "engine profiler"
    assert "was started without it" in info["captured"]["why_not_better"]
    assert "was started without it" in " ".join(done.stdout.split())
    assert {"trace-TP-0.trace.json.gz", "client.json", "server.log"} <= {path.name for path in run.iterdir()}


def test_the_probes_own_cost_is_in_the_run(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server()
    drive = ("--drive", "tokens=64 context=32", "--cycles", "10", "--overhead-pairs", "3")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out")
    assert done.returncode == 0, done.stderr
    _, info = only_run(tmp_path / "out")
    overhead = info["overhead"]
    assert overhead["pairs"] == 3
    assert overhead["lo"] <= overhead["fraction"] <= overhead["hi"]
    assert abs(overhead["fraction"]) < 0.5


def test_traffic_of_others_is_recorded_as_it_comes_and_the_probes_cost_told_by_the_log(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    server = start_server()
    port = int(server.log.read_text().rpartition(":")[2])
    stop = threading.Event()

    def send() -> None:
        body = {"input_ids": [[1] * 20] * 2, "sampling_params": {"max_new_tokens": 100}}
        request = urllib.request.Request(f"http://localhost:{port}/generate", json.dumps(body).encode())
        while not stop.is_set():
            urllib.request.urlopen(request).close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        wishes = ("--cycles", "100", "--overhead-pairs", "2")
        done = toolkit_command("profile", "--server-pid", server.pid, *wishes, "-o", "out")
    finally:
        stop.set()
        thread.join()
    assert done.returncode == 0, done.stderr
    run, info = only_run(tmp_path / "out")
    assert (info["batch_size"], info["temperature"]) == (2, None)
    assert info["captured"]["load"] == "the traffic that was there"
    assert not (run / "client.json").exists()
    assert len(span_lines(run / "spans-TP-0.jsonl.gz")) > 100
    assert info["overhead"]["pairs"] == 2
    assert "by the server's log" in info["overhead"]["how"]


def test_an_idle_server_is_said_to_be_idle(
    start_server: Callable[..., Any], toolkit_command: CommandLine
) -> None:
    done = toolkit_command("profile", "--server-pid", start_server().pid, "--seconds", "0.5")
    assert (done.returncode, done.stdout) == (4, "")
    assert "it is idle" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_load_that_cannot_fit_is_refused_before_anything_is_sent(
    start_server: Callable[..., Any], toolkit_command: CommandLine
) -> None:
    server = start_server()
    done = toolkit_command("profile", "--server-pid", server.pid, "--drive", "tokens=512 context=4096")
    assert done.returncode == 2
    assert "the server takes 4096" in done.stderr
    assert "Decode batch" not in server.log.read_text()


def test_what_cannot_be_is_refused_before_any_load_is_sent(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    pid = start_server().pid
    (tmp_path / "file").write_text("")
    here = ("profile", "--server-pid", pid, "--drive", "tokens=64 context=32", *QUICK)
    for place in ("file", "file/below"):
        done = toolkit_command(*here, "-o", place)
        assert done.returncode == 3 and "is no folder; name another place with -o" in done.stderr
    for load, why in (("batch=1 batch=4", "batch= twice"), ("", "says nothing"), ("tokens=999999", "lower")):
        for dry in ((), ("--dry-run",)):
            done = toolkit_command("profile", "--server-pid", pid, "--drive", load, *QUICK, *dry)
            assert done.returncode == 2 and why in done.stderr, (load, done.stderr)


def test_an_existing_run_is_kept_unless_told(
    start_server: Callable[..., Any], toolkit_command: CommandLine, tmp_path: Path
) -> None:
    pid = start_server().pid
    profile = ("profile", "--server-pid", pid, "--drive", "tokens=64 context=32", "-o", "out", *QUICK)
    for _ in range(2):
        assert toolkit_command(*profile).returncode == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names[1] == f"{names[0]}-2"
    assert toolkit_command(*profile, "--overwrite").returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names


@pytest.fixture
def profiler(tmp_path: Path, repository: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts a long profile and returns once the server decodes for it."""
    started: list[subprocess.Popen[str]] = []

    def start(server: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "toolkit", "profile", "--server-pid", str(server.pid), "-o", "out"]
        command += [
            "--drive",
            "tokens=200 context=32",
            "--cycles",
            "100000",
            "--overhead-pairs",
            "0",
            "--json",
        ]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(repository)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        end = time.monotonic() + 30
        while server.log.read_text().count("Decode batch") < 3 and time.monotonic() < end:
            time.sleep(0.05)
        return process

    yield start
    for one in started:
        one.kill()
        one.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_profile_keeps_what_it_has_and_says_so(
    start_server: Callable[..., Any], profiler: Callable[..., Any], tmp_path: Path, number: signal.Signals
) -> None:
    process = profiler(start_server())
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    run, info = only_run(tmp_path / "out")
    assert info["captured"]["complete"] is False
    assert info["captured"]["ended_early"] == "interrupted"
    assert len(span_lines(run / "spans-TP-0.jsonl.gz")) > 50
    assert json.loads(out)["runs"][0]["complete"] is False


def test_a_server_that_dies_leaves_an_incomplete_run(
    start_server: Callable[..., Any], profiler: Callable[..., Any], tmp_path: Path
) -> None:
    server = start_server()
    process = profiler(server)
    os.killpg(server.pid, signal.SIGKILL)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 4, error
    assert "ended while it was profiled" in error
    assert "Traceback" not in error
    _, info = only_run(tmp_path / "out")
    assert info["captured"]["complete"] is False


def test_a_killed_profiler_leaves_the_server_serving_and_the_next_profile_works(
    start_server: Callable[..., Any],
    profiler: Callable[..., Any],
    toolkit_command: CommandLine,
    tmp_path: Path,
) -> None:
    server = start_server()
    process = profiler(server)
    process.kill()
    process.wait(10)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("2*"))
    drive = ("--drive", "tokens=64 context=32")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "next", *QUICK)
    assert done.returncode == 0, done.stderr
    assert only_run(tmp_path / "next")[1]["captured"]["complete"] is True


def test_a_second_profile_at_the_same_time_is_refused(
    start_server: Callable[..., Any], profiler: Callable[..., Any], toolkit_command: CommandLine
) -> None:
    server = start_server()
    profiler(server)
    done = toolkit_command("profile", "--server-pid", server.pid, "--drive", "tokens=64 context=32", *QUICK)
    assert done.returncode == 4
    assert "another profile is recording" in done.stderr


def test_profiles_in_a_row_leave_nothing_behind(
    start_server: Callable[..., Any], toolkit_command: CommandLine
) -> None:
    server = start_server()
    (rank,) = server.ranks()
    drive = ("--drive", "tokens=8 context=4", "--cycles", "1", "--overhead-pairs", "0")

    def open_files() -> int:
        return len(os.listdir(f"/proc/{rank}/fd"))

    toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out")
    before = open_files()
    for _ in range(4):
        done = toolkit_command("profile", "--server-pid", server.pid, *drive, "-o", "out")
        assert done.returncode == 0, done.stderr
    time.sleep(0.2)
    assert open_files() == before
    assert not [name for name in tree(server.temporary) if "recording" in name]


def test_the_probe_path_is_a_folder_with_the_probe_and_its_entry_points(toolkit_command: CommandLine) -> None:
    folder = Path(toolkit_command("probe-path").stdout.strip())
    assert (folder / "toolkit_probe" / "__init__.py").is_file()
    entry_points = next(folder.glob("toolkit_probe-*.dist-info")) / "entry_points.txt"
    assert "[sglang.srt.plugins]" in entry_points.read_text()
    assert json.loads(toolkit_command("probe-path", "--json").stdout)["folder"] == str(folder)


def test_a_server_without_a_plain_tier_is_told_the_restart_that_a_baseline_needs(
    start_server: Callable[..., Any], toolkit_command: CommandLine
) -> None:
    server = start_server("--speculative-num-steps", "3")
    drive = ("--drive", "tokens=64 context=32", "--baseline")
    done = toolkit_command("profile", "--server-pid", server.pid, *drive, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "its baseline needs another start: " in done.stderr
    assert "-m sglang.launch_server --tp 1\n" in done.stderr
