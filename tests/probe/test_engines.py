"""The probe inside made-up engines with the real names, loaded and asked as in a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.probe.conftest import Client, until
from tests.probe.engine_trees import write_sglang
from toolkit.ingest.spans import read_spans
from toolkit.probe.where import site_folder


class Server:
    """A launcher and its rank; `do` sends the rank a command and returns what it says."""

    def __init__(self, driver: Path, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        folder = driver.parent
        self.sockets = folder / "sockets"
        pipe = folder / "commands"
        os.mkfifo(pipe)
        self._commands = os.open(pipe, os.O_RDWR)
        path = os.pathsep.join([str(site_folder()), str(folder)])
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TOOLKIT_PROBE")}
        self.process = subprocess.Popen(
            [sys.executable, str(driver), str(pipe), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**clean, "PYTHONPATH": path, "TOOLKIT_PROBE_DIR": str(self.sockets), **environment},
        )
        self.pid = self._said()["ready"]
        self.socket = self.sockets / f"{self.pid}.sock"

    def do(self, command: str) -> dict[str, Any]:
        os.write(self._commands, command.encode() + b"\n")
        return self._said()

    def close(self) -> str:
        """End it and return what it wrote to stderr."""
        os.write(self._commands, b"quit\n")
        try:
            error = self.process.communicate(timeout=20)[1]
        finally:
            self.process.kill()
            os.close(self._commands)
        return error

    def _said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        found: dict[str, Any] = json.loads(line)
        return found


Serve = Callable[..., Server]
Connect = Callable[[Path], Client]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts a made-up SGLang; it is ended afterwards."""
    made: list[Server] = []

    def start(*arguments: str, version: str = "0.5.15", without: str = "", **environment: str) -> Server:
        folder = tmp_path / f"server{len(made)}"
        made.append(Server(write_sglang(folder, version, without), arguments, environment))
        return made[-1]

    yield start
    for server in made:
        if server.process.poll() is None:
            server.close()


def record(server: Server, client: Client, folder: Path, cycles: int) -> Any:
    """Record that many speculative cycles and return the spans."""
    folder.mkdir()
    started = client.ask(do="start", folder=str(folder), cycles=cycles, steps_every=2)
    assert started["ok"], started
    server.do(f"decode {cycles + 2}")
    until(lambda: client.ask(do="status")["state"] == "asleep")
    return read_spans(Path(started["spans_file"]))


def test_a_rank_is_hooked_and_its_launcher_is_not(serve: Serve, connect: Connect) -> None:
    server = serve()
    assert [one.name for one in server.sockets.iterdir()] == [f"{server.pid}.sock"]
    status = connect(server.socket).ask(do="status")
    assert status["engine"] == "sglang" and status["engine_version"] == "0.5.15"
    assert (status["pid"], status["tp_rank"], status["tp_size"]) == (server.pid, 0, 1)
    assert set(status["hooks"].values()) == {"ok"}
    assert set(status["hooks"]) == {"cycle", "draft", "verify", "draft_extend", "acceptance"}
    assert status["args"]["num_steps"] == 3 and status["args"]["overlap_schedule"] is True
    assert status["state"] == "asleep" and status["mode"] == "steps" and status["in_graph"] == "ok"


def test_cycles_have_the_times_that_the_gpu_took(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve()
    spans = record(server, connect(server.socket), tmp_path / "out", 6)
    assert len(spans.cycles) == 6 and spans.dropped == 0 and not spans.damage
    for cycle in spans.cycles:
        assert cycle.stage_us == pytest.approx({"draft": 640, "verify": 5000, "draft_extend": 300}, abs=0.01)
        assert cycle.graph == {"draft": True, "verify": False, "draft_extend": False}
        assert (cycle.batch_size, cycle.padded_batch_size, cycle.context_tokens) == (2, 2, 110)
        assert (cycle.num_steps, cycle.num_draft_tokens, cycle.correct_drafts) == (3, 4, (2, 2))
    assert [one.cycle for one in spans.cycles] == list(range(6))


def test_every_second_cycle_has_times_from_inside_the_graph(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    client = connect(server.socket)
    spans = record(server, client, tmp_path / "first", 40)
    whole = [cycle for cycle in spans.cycles if cycle.graph_us]
    forwards = [cycle for cycle in spans.cycles if cycle.draft_steps_us]
    assert len(whole) >= 4 and len(whole) + len(forwards) >= 9, "the cycles after the first, which waited"
    assert not {cycle.cycle for cycle in whole} & {cycle.cycle for cycle in forwards}, "each takes its turn"
    assert all(cycle.graph_us == pytest.approx({"draft": 540}, abs=0.01) for cycle in whole)
    assert all(cycle.draft_steps_us == pytest.approx((250, 250), abs=0.01) for cycle in forwards)
    second = record(server, client, tmp_path / "second", 8).cycles
    # Copies are there from the first cycle on; one that is read too late for its next turn leaves that out.
    assert second[0].graph_us and {cycle.cycle for cycle in second if cycle.graph_us} <= {0, 4}
    assert second[2].draft_steps_us and {cycle.cycle for cycle in second if cycle.draft_steps_us} <= {2, 6}


def test_a_driver_without_copies_leaves_the_engines_graphs_alone_unless_steps_are_asked_for(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve(NO_DRIVER="1")
    client = connect(server.socket)
    status = client.ask(do="status")
    assert status["in_graph"].startswith("off: copies of graphs do not work here (libcuda.so.1: ")
    assert "TOOLKIT_PROBE=steps adds event nodes" in status["in_graph"] and status["mode"] == "steps"
    spans = record(server, client, tmp_path / "out", 6)
    assert len(spans.cycles) == 6 and not any(cycle.graph_us for cycle in spans.cycles)
    assert all(cycle.graph["draft"] and cycle.stage_us["draft"] for cycle in spans.cycles)


def test_an_engine_whose_open_captures_cannot_be_copied_is_read_through_kept_graphs(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve(NO_OPEN_COPY="1")
    client = connect(server.socket)
    assert client.ask(do="status")["in_graph"].startswith("ok, copies of kept graphs: ")
    cycles = record(server, client, tmp_path / "out", 40).cycles
    whole = [cycle.graph_us for cycle in cycles if cycle.graph_us]
    forwards = [cycle.draft_steps_us for cycle in cycles if cycle.draft_steps_us]
    assert len(whole) >= 4 and whole[0] == pytest.approx({"draft": 540}, abs=0.01)
    assert len(forwards) >= 4 and forwards[0] == pytest.approx((250, 250), abs=0.01)


def test_a_driver_without_copies_has_the_events_in_the_engines_graphs_if_asked_for(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve(NO_DRIVER="1", TOOLKIT_PROBE="steps")
    client = connect(server.socket)
    assert client.ask(do="status")["in_graph"].startswith("ok, event nodes always on: libcuda.so.1: ")
    inside = [cycle for cycle in record(server, client, tmp_path / "out", 6).cycles if cycle.graph_us]
    assert [cycle.cycle for cycle in inside] == [0, 2, 4]
    assert inside[0].draft_steps_us == pytest.approx((250, 250), abs=0.01)


def test_stages_mode_leaves_graphs_alone(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve(TOOLKIT_PROBE="stages")
    client = connect(server.socket)
    assert client.ask(do="status")["in_graph"] == "unavailable: the mode is stages"
    spans = record(server, client, tmp_path / "out", 4)
    assert all(cycle.graph_us is None and cycle.draft_steps_us is None for cycle in spans.cycles)
    assert all(cycle.padded_batch_size == 2 and cycle.graph["draft"] for cycle in spans.cycles if cycle.graph)


def test_eager_draft_forwards_are_timed_on_sampled_cycles(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve("disable_cuda_graph=true")
    spans = record(server, connect(server.socket), tmp_path / "out", 4)
    assert [cycle.draft_steps_us is not None for cycle in spans.cycles] == [True, False, True, False]
    assert spans.cycles[0].draft_steps_us == pytest.approx((250, 250), abs=0.01)
    assert spans.cycles[0].padded_batch_size is None


def test_off_leaves_every_name_of_the_engine_alone(serve: Serve) -> None:
    server = serve(TOOLKIT_PROBE="off")
    assert server.do("names")["hooked"] == []
    assert not server.sockets.exists()
    server.do("decode 3")
    loaded = [name for name in server.do("modules")["modules"] if name.startswith("toolkit_probe")]
    assert loaded == ["toolkit_probe"]


def test_only_the_standard_library_is_loaded_beside_the_engine(serve: Serve) -> None:
    without = set(serve(TOOLKIT_PROBE="off").do("modules")["modules"])
    loaded = set(serve().do("modules")["modules"]) - without
    foreign = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    assert "toolkit_probe.session" in foreign
    assert all(name.startswith("toolkit_probe.") for name in foreign)


def test_profiles_in_a_row_each_hold_their_own_cycles(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve()
    client = connect(server.socket)
    client.ask(do="status")
    threads = len(os.listdir(f"/proc/{server.pid}/task"))
    files = len(os.listdir(f"/proc/{server.pid}/fd"))
    for number in range(5):
        spans = record(server, client, tmp_path / str(number), 3)
        assert [cycle.correct_drafts for cycle in spans.cycles] == [(2, 2)] * 3
    until(lambda: len(os.listdir(f"/proc/{server.pid}/task")) == threads)
    assert len(os.listdir(f"/proc/{server.pid}/fd")) == files


def test_a_prefill_leaves_a_gap_in_the_numbers(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve()
    client = connect(server.socket)
    started = client.ask(do="start", folder=str(tmp_path), cycles=None)
    for command in ("decode 2", "prefill", "decode 2"):
        server.do(command)
    stopped = client.ask(do="stop")
    numbers = [cycle.cycle for cycle in read_spans(Path(started["spans_file"])).cycles]
    assert stopped["recorded"] == 4 and numbers[:2] == [0, 1] and numbers[2] > 2


def test_an_exception_of_the_engine_passes_and_the_next_cycle_is_whole(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    client = connect(server.socket)
    started = client.ask(do="start", folder=str(tmp_path), cycles=None)
    server.do("decode 1")
    assert server.do("fail") == {"raised": "the engine's own"}
    server.do("decode 2")
    client.ask(do="stop")
    cycles = read_spans(Path(started["spans_file"])).cycles
    phases = {"draft", "verify", "draft_extend"}
    assert [set(one.stage_us or ()) for one in cycles] == [phases] * 3


def test_plain_decoding_is_one_phase(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve("speculative_algorithm=none")
    client = connect(server.socket)
    assert client.ask(do="status")["hooks"] == {"cycle": "ok", "decode": "ok"}
    started = client.ask(do="start", folder=str(tmp_path), cycles=2)
    server.do("plain 2")
    until(lambda: client.ask(do="status")["state"] == "asleep")
    cycles = read_spans(Path(started["spans_file"])).cycles
    assert [(one.num_steps, one.num_draft_tokens, one.context_tokens) for one in cycles] == [(0, 1, 50)] * 2
    assert all(list(one.stage_us or ()) == ["decode"] and one.correct_drafts is None for one in cycles)


def test_a_renamed_method_is_reported_by_name_and_the_rest_works(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve(without="_draft_extend_for_decode")
    client = connect(server.socket)
    server.do("decode 1")
    hooks = client.ask(do="status")["hooks"]
    gone = "sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker._draft_extend_for_decode"
    assert hooks.pop("draft_extend") == f"missing: {gone}"
    assert set(hooks.values()) == {"ok"}
    spans = record(server, client, tmp_path / "out", 2)
    assert all(set(cycle.stage_us) == {"draft", "verify"} for cycle in spans.cycles if cycle.stage_us)


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("speculative_algorithm=DFLASH", "DFLASH"),
        ("enable_multi_layer_eagle=true", "MultiLayerEagleWorkerV2"),
    ],
)
def test_a_worker_that_is_not_supported_is_named(
    serve: Serve, connect: Connect, argument: str, name: str
) -> None:
    cycle = connect(serve(argument).socket).ask(do="status")["hooks"]["cycle"]
    assert cycle.startswith("failed: ") and name in cycle


def test_a_client_that_dies_ends_its_recording_and_the_next_one_works(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    (tmp_path / "dead").mkdir()
    dying = Client(server.socket)
    started = dying.ask(do="start", folder=str(tmp_path / "dead"), cycles=None)
    server.do("decode 3")
    dying.close()
    client = connect(server.socket)
    until(lambda: client.ask(do="status")["state"] == "asleep")
    assert len(read_spans(Path(started["spans_file"])).cycles) == 3
    assert len(record(server, client, tmp_path / "alive", 2).cycles) == 2


def test_an_older_sglang_loads_the_probe_only_when_told_to(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve(version="0.5.9", TOOLKIT_PROBE_STARTUP="1")
    client = connect(server.socket)
    spans = record(server, client, tmp_path / "out", 3)
    assert [cycle.correct_drafts for cycle in spans.cycles] == [(2, 2)] * 3
    assert spans.cycles[0].stage_us == pytest.approx(
        {"draft": 800, "verify": 5000, "draft_extend": 300}, abs=0.01
    )


def test_an_older_sglang_that_is_not_told_to_is_left_alone(serve: Serve) -> None:
    server = serve(version="0.5.9")
    assert server.do("names")["hooked"] == [] and not server.sockets.exists()


def test_the_next_sitecustomize_runs_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['OTHER_SITE'] = 'ran'")
    for told in ({}, {"TOOLKIT_PROBE_STARTUP": "1"}):
        ran = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ.get('OTHER_SITE'))"],
            env={"PYTHONPATH": f"{site_folder()}{os.pathsep}{tmp_path}", **told},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == "ran" and not ran.stderr


def test_two_copies_of_the_folder_do_not_call_each_other_for_ever(tmp_path: Path) -> None:
    shutil.copytree(site_folder(), tmp_path / "copy")
    (tmp_path / "link").symlink_to(site_folder())
    path = os.pathsep.join(map(str, (site_folder(), tmp_path / "copy", tmp_path / "link")))
    command = [sys.executable, "-c", "print('started')"]
    ran = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert (ran.stdout.strip(), ran.stderr) == ("started", "")


def test_the_server_says_nothing_of_the_probe_when_all_is_well(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    record(server, connect(server.socket), tmp_path / "out", 2)
    assert server.close() == ""
    assert not server.socket.exists()
