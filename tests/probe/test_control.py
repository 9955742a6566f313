"""The socket of a rank: who may connect, what is answered, what is left behind."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from toolkit_probe import socket_folder, wire
from toolkit_probe.rank import Rank, Roles
from toolkit_probe.session import Session

from tests.probe.conftest import Client, until
from toolkit.probe import wire_names
from toolkit.probe.where import site_folder

Connect = Callable[[Path], Client]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the default socket folder, inside a temporary folder of this test's."""
    monkeypatch.delenv(wire.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(socket_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"toolkit-probe-{os.getuid()}"


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    """Return the session of a rank whose socket is open."""
    made = Session("sglang", "0.5.15", "steps")
    made.rank_started(Rank(1, 0, 0, lambda: {"tp_size": 2}, lambda: Roles((), {})))
    yield made
    made.close()


@pytest.fixture
def own(folder: Path, session: Session) -> Path:
    """Return the socket's path."""
    return folder / f"{os.getpid()}.sock"


def test_folder_and_socket_are_the_users_alone(own: Path) -> None:
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(own.stat().st_mode) == 0o600 and stat.S_ISSOCK(own.stat().st_mode)


def test_an_open_folder_of_ours_is_closed_to_others(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    socket_folder.own_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_link_in_place_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="no folder"):
        socket_folder.own_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away, which only root may")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(OSError, match="belongs to user 12345"):
        socket_folder.own_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, which only root may")
def test_a_peer_of_another_user_is_refused(own: Path) -> None:
    for path in own.parents:
        if path.stat().st_uid == 0 and path != Path("/tmp") and path != Path("/"):
            path.chmod(0o755)
    own.chmod(0o666)
    ask = """
import os, socket, sys
os.setgid(12345); os.setuid(int(sys.argv[2]))
client = socket.socket(socket.AF_UNIX); client.settimeout(5); client.connect(sys.argv[1])
try:
    client.sendall(b'{"do": "status"}' + bytes([10]))
    print(len(client.recv(100)))
except OSError:
    print(0)
"""

    def answered(uid: int) -> int:
        ran = subprocess.run(
            [sys.executable, "-c", ask, str(own), str(uid)], capture_output=True, text=True, check=True
        )
        return int(ran.stdout)

    assert answered(12345) == 0 and answered(0) > 0


def test_sockets_of_dead_processes_are_removed_and_others_stay(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    for name in (f"{dead.pid}.sock", "notes.txt", "model.sock"):
        (folder / name).touch()
    (folder / f"{os.getppid()}.sock").touch()
    with socket.socket(socket.AF_UNIX) as answering:  # the rank of another container, not in our /proc
        answering.bind(str(folder / "4194304000.sock"))
        answering.listen()
        socket_folder.remove_stale(str(folder))
        kept = {"notes.txt", "model.sock", f"{os.getppid()}.sock", "4194304000.sock"}
        assert {path.name for path in folder.iterdir()} == kept


def test_a_folder_deeper_than_an_address_holds_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 120)
    monkeypatch.setenv(wire.FOLDER_VARIABLE, str(deep))
    server, path = socket_folder.listen(socket_folder.own_folder())
    with server:
        assert Path(path) == deep / f"{os.getpid()}.sock" and stat.S_ISSOCK(os.stat(path).st_mode)


def test_the_socket_is_gone_after_close(own: Path, session: Session) -> None:
    session.close()
    assert not own.exists()


def test_status_says_what_the_wire_names(own: Path, connect: Connect) -> None:
    status = connect(own).ask(do="status")
    named = {"ok", "error", "wire", "pid", "engine", "engine_version", "tp_rank", "tp_size", "dp_rank"}
    named |= {
        "pp_rank",
        "mode",
        "state",
        "hooks",
        "in_graph",
        "torch",
        "recorded",
        "dropped",
        "spans_file",
        "args",
    }
    assert named <= set(status)
    assert (status["wire"], status["pid"], status["tp_rank"], status["tp_size"]) == (1, os.getpid(), 1, 2)
    assert (status["in_graph"], status["state"], status["spans_file"]) == ("no graphs yet", "asleep", None)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"do": "dance"}, "none of status, start, stop"),
        ({"do": "start"}, "needs the folder"),
        ({"do": "start", "folder": "relative"}, "not an absolute path"),
        ({"do": "start", "folder": "/no/such/folder"}, "No such file"),
        ({"do": "start", "folder": "/tmp", "cycles": 0}, "not a whole number"),
        ({"do": "start", "folder": "/tmp", "cycles": True}, "not a whole number"),
        ({"do": "start", "folder": "/tmp", "seconds": -1}, "not a positive number"),
        ({"do": "start", "folder": "/tmp", "seconds": "long"}, "not a positive number"),
    ],
)
def test_a_request_that_cannot_be_is_answered_with_one_sentence(
    own: Path, connect: Connect, request_: dict[str, object], why: str
) -> None:
    client = connect(own)
    answer = client.ask(**request_)
    assert answer["ok"] is False and why in answer["error"]
    assert client.ask(do="status")["state"] == "asleep"


@pytest.mark.parametrize("line", [b"not json\n", b"[1, 2]\n", b"\xff\xfe\n", b'{"do":\n'])
def test_a_line_that_is_no_request_is_answered_and_the_connection_stays(
    own: Path, connect: Connect, line: bytes
) -> None:
    client = connect(own)
    client.socket.sendall(line)
    assert client.answer()["ok"] is False
    assert client.ask(do="status")["ok"] is True


def test_a_line_without_end_is_not_held_for_ever(own: Path, connect: Connect) -> None:
    client = connect(own)
    with pytest.raises((AssertionError, OSError)):
        for _ in range(100):
            client.socket.sendall(b"x" * 10_000)
        client.answer()
    assert connect(own).ask(do="status")["ok"] is True


def test_one_recording_at_a_time(own: Path, connect: Connect, tmp_path: Path) -> None:
    first, second = connect(own), connect(own)
    assert first.ask(do="start", folder=str(tmp_path))["ok"] is True
    assert second.ask(do="status")["state"] == "recording"
    assert "stop it first" in second.ask(do="start", folder=str(tmp_path))["error"]
    assert "ends with that one" in second.ask(do="stop")["error"], "nor does another connection end it"
    assert second.ask(do="status")["state"] == "recording"
    stopped = first.ask(do="stop")
    assert (stopped["ok"], stopped["recorded"], stopped["dropped"]) == (True, 0, 0)
    assert Path(stopped["spans_file"]).name == "spans-TP-1.jsonl"


def test_only_the_connection_that_started_a_recording_ends_it_by_closing(
    own: Path, connect: Connect, tmp_path: Path
) -> None:
    first, second = connect(own), connect(own)
    first.ask(do="start", folder=str(tmp_path))
    second.close()
    third = connect(own)
    assert third.ask(do="status")["state"] == "recording"
    first.close()
    until(lambda: third.ask(do="status")["state"] == "asleep")


def test_stop_without_a_recording_is_no_error(own: Path, connect: Connect) -> None:
    assert connect(own).ask(do="stop") == {
        "ok": True, "error": None, "recorded": 0, "dropped": 0, "unread_graphs": 0, "unread": {},
        "spans_file": None,
    }  # fmt: skip


def test_a_forked_child_leaves_the_socket_to_its_parent(
    own: Path, session: Session, connect: Connect
) -> None:
    child = f"""
import os, sys
sys.path.insert(0, {str(site_folder())!r})
from toolkit_probe.rank import Rank, Roles
from toolkit_probe.session import Session
os.environ["TOOLKIT_PROBE_DIR"] = sys.argv[1]
one = Session("sglang", "0.5.15", "steps")
rank = Rank(0, 0, 0, dict, lambda: Roles((), {{}}))
one.rank_started(rank)
if os.fork():
    os.wait()
    print(sorted(os.listdir(sys.argv[1])) == [f"{{os.getpid()}}.sock"])
    one.close()
else:
    one.forked()
    one.close()
    one.rank_started(rank)
    assert os.path.exists(os.path.join(sys.argv[1], f"{{os.getpid()}}.sock"))
    one.close()
    os._exit(0)
"""
    shared = own.parent.parent / "shared"
    shared.mkdir()
    command = [sys.executable, "-W", "ignore", "-c", child, str(shared)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "True", ran.stderr


def test_both_ends_speak_from_one_text() -> None:
    names = [name for name in vars(wire_names) if name.isupper()]
    assert len(names) >= 11
    assert all(getattr(wire_names, name) == getattr(wire, name) for name in names)
    assert wire_names.socket_folder("/tmp", 7) == wire.socket_folder("/tmp", 7) == "/tmp/toolkit-probe-7"
    assert (wire_names.socket_name(9), wire_names.spans_name(3)) == ("9.sock", "spans-TP-3.jsonl")
