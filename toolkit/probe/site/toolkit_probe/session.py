"""The probe of one rank process: what `status`, `start` and `stop` do."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import wire
from .acceptance import Acceptance
from .complaints import complain
from .control import Control
from .guard import Faults
from .in_graph import InGraph
from .patching import Patches
from .rank import Rank, Roles
from .recorder import Recorder
from .recording import Recording
from .spans_file import SpansFile
from .writer import Writer

_STOP_S = 4.0  # for cycles that are under way when a recording is stopped


class Session:
    """Everything of the probe in this process. The socket opens when the engine makes its rank object."""

    def __init__(self, engine: str, version: str, mode: str, add_nodes: bool = False) -> None:
        self.engine = engine
        self.version = version
        self.mode = mode
        self.recorder = Recorder()
        self.acceptance = Acceptance()
        self.faults = Faults(self.recorder)
        self.in_graph = InGraph(self.recorder, mode == "steps", add_nodes)
        self.patches = Patches()
        self.rank: Rank | None = None
        self._control: Control | None = None
        self._recording: Recording | None = None
        self._writer: Writer | None = None
        self._owner: object = None

    def rank_started(self, rank: Rank) -> None:
        """Open the socket. Called again in a forked process, it opens that process's own."""
        self.rank = rank
        self.patches.retry()
        if self._control is not None and self._control.pid == os.getpid():
            return
        self._control = Control(self.answer, self.gone)
        self._control.start()

    def forked(self) -> None:
        """In a forked child: sleep, and leave the parent's socket and file to the parent."""
        self.recorder.stop()
        self._writer = self._recording = self._owner = None
        if self._control is not None:
            self._control.forget()
            self._control = None

    def close(self) -> None:
        """At exit: finish the file and remove the socket."""
        self._finish(1.0)
        if self._control is not None:
            self._control.close()

    def answer(self, request: dict[str, Any], client: object) -> dict[str, Any]:
        """Return the answer to one request. Errors become an answer in `control`."""
        do = request.get("do")
        if do == "status":
            return self._status()
        if do == "start":
            return self._start(request, client)
        if do == "stop":
            return self._stop(client)
        raise ValueError(f"{do!r} is none of status, start, stop")

    def gone(self, client: object) -> None:
        """A client closed its connection: its recording ends with it."""
        if client is self._owner:
            self._finish(_STOP_S)
            self._owner = None

    def _start(self, request: dict[str, Any], client: object) -> dict[str, Any]:
        if self._writer is not None and self._writer.is_alive():
            raise ValueError("a recording is running; stop it first")
        if self.rank is None:
            raise ValueError("the rank is not made yet; ask again when the server is up")
        folder = request.get("folder")
        if not isinstance(folder, str):
            raise ValueError("start needs the folder to write to")
        recording = Recording(
            cycles=_whole(request, "cycles", None),
            seconds=_seconds(request),
            steps_every=_whole(request, "steps_every", wire.STEPS_EVERY) or wire.STEPS_EVERY,
            max_cycles=_whole(request, "max_cycles", wire.MAX_CYCLES) or wire.MAX_CYCLES,
            steps=self.mode == "steps",
            not_before_ns=_whole(request, "not_before_ns", None) or 0,
        )
        spans = SpansFile(folder, self.rank.tp_rank, self.in_graph.event_pair_us)
        self.acceptance.clear()
        self._recording = recording
        self._writer = Writer(recording, spans, self.in_graph)
        self._writer.start()
        self._owner = client
        self.recorder.start(recording)
        return {"ok": True, "error": None, "spans_file": spans.path}

    def _stop(self, client: object) -> dict[str, Any]:
        if self._owner not in (None, client) and self._writer is not None and self._writer.is_alive():
            raise ValueError("another connection started the recording, which ends with that one")
        self._finish(_STOP_S)
        self._owner = None
        return {"ok": True, "error": None, **self._counts()}

    def _finish(self, seconds: float) -> None:
        self.recorder.stop()
        if self._writer is not None and self._writer.is_alive():
            self._writer.finish(seconds)

    def _counts(self) -> dict[str, Any]:
        recording, writer = self._recording, self._writer
        waiting = len(recording.finished) if recording else 0
        return {
            "recorded": writer.recorded + waiting if writer else 0,
            "dropped": recording.dropped if recording else 0,
            "unread_graphs": recording.unread if recording else 0,
            "unread": dict(recording.unread_why) if recording else {},
            "spans_file": writer.spans.path if writer else None,
        }

    def _status(self) -> dict[str, Any]:
        self.patches.retry()
        rank = self.rank
        torch = sys.modules.get("torch")
        running = self._writer is not None and self._writer.is_alive()
        return {
            "ok": True,
            "error": None,
            "wire": wire.WIRE,
            "pid": os.getpid(),
            "engine": self.engine,
            "engine_version": self.version,
            "tp_rank": rank.tp_rank if rank else None,
            "tp_size": self._arguments().get("tp_size"),
            "dp_rank": rank.dp_rank if rank else None,
            "pp_rank": rank.pp_rank if rank else None,
            "mode": self.mode,
            "state": "recording" if running else "asleep",
            "hooks": self._hooks(),
            "in_graph": self.in_graph.status(),
            "graphs": self.in_graph.graphs,
            "torch": getattr(torch, "__version__", None),
            "clock": None if self._recording is None else getattr(self._recording.clock, "name", None),
            "args": self._arguments(),
            **self._counts(),
        }

    def _arguments(self) -> dict[str, Any]:
        try:
            return self.rank.arguments() if self.rank else {}
        except Exception as error:
            complain("reading the server's settings", error)
            return {}

    def _hooks(self) -> dict[str, str]:
        """Return for each role that this server needs how its hook stands; `cycle` covers plain decoding."""
        try:
            roles = self.rank.roles() if self.rank else Roles(("cycle",), {})
        except Exception as error:
            complain("reading the server's settings", error)
            roles = Roles(("cycle",), {})
        found = {}
        for role in roles.needed:
            name = "cycle" if role == "plain_cycle" else role
            found[name] = roles.refused.get(role) or self.faults.why.get(role) or self._state(role)
        return found

    def _state(self, role: str) -> str:
        """Return the best state among the targets of a role."""
        states = [state for target, state in self.patches.states.items() if target.role == role]
        if "ok" in states:
            return "ok"
        failed = [state for state in states if state.startswith("failed")]
        return (failed or states or [f"missing: {role} has no target in {self.engine} {self.version}"])[0]


def _whole(request: dict[str, Any], name: str, default: int | None) -> int | None:
    value = request.get(name, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}, not a whole number from 1 on")
    return value


def _seconds(request: dict[str, Any]) -> float | None:
    value = request.get("seconds")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
        raise ValueError(f"seconds is {value!r}, not a positive number")
    return float(value)
