"""From a process id to the server behind it, or one sentence why there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import CaptureError
from toolkit.live.command_flags import command_flags
from toolkit.live.dist_info import package_version
from toolkit.live.engine_of import engine_by_command, engine_by_libraries, gpu_libraries, rank_processes
from toolkit.live.log_window import ports_in_log
from toolkit.live.proc import (
    Process,
    ancestors,
    descendants,
    environment,
    listening_ports,
    live_processes,
    output_file,
    process,
    started_at,
)
from toolkit.live.server import Engine, Server
from toolkit.live.sockets import probe_sockets

_PACKAGES = {"sglang": "sglang", "vllm": "vllm", "reference": "toolkit", "pytorch": "torch"}
_DEFAULT_PORTS = {"sglang": 30000, "vllm": 8000}


def attach(pid: int) -> Server:
    """Return the server to which a process belongs: its launcher, one of its ranks, or a parent of it.

    Raises CaptureError in one sentence for a process that is gone, not ours, or no server.
    """
    if not sys.platform.startswith("linux"):
        raise CaptureError(
            f"a running server is found through Linux's /proc, which this host ({sys.platform}) lacks; "
            "run toolkit profile where the server runs"
        )
    given = process(pid)
    if given is None:
        raise CaptureError(f"process {pid} does not run here; give the id of a running server's process")
    if os.geteuid() not in (0, given.uid):
        raise CaptureError(
            f"process {pid} belongs to user {given.uid}, not to you (user {os.geteuid()}); "
            "run toolkit profile as that user or as root"
        )
    table = live_processes()
    root, engine = _root(given, table)
    return _server(root, engine, descendants(root.pid, table))


def _root(given: Process, table: dict[int, Process]) -> tuple[Process, Engine]:
    """Return the process that was started as the server, and its engine.

    The outermost parent that is an engine's process counts, then the process itself, then what it
    started: a shell or a container's first process may be given.
    """
    for one in (*reversed(ancestors(given.pid, table)), given):
        engine = engine_by_command(one)
        if engine:
            return one, engine
    below = descendants(given.pid, table)
    servers: dict[int, tuple[Process, Engine]] = {}
    for one in below:
        engine = engine_by_command(one)
        if engine and one.parent not in servers and not _is_below(one, servers, table):
            servers[one.pid] = (one, engine)
    titled = [one for one, _ in servers.values() if "::" in one.command[0]]
    if titled and len(titled) == len(servers) and len({one.parent for one in titled}) == 1:
        parent = table.get(titled[0].parent, given)  # a program that uses the engine as a library
        return parent, servers[titled[0].pid][1]
    if len(servers) > 1:
        raise CaptureError(
            f"process {given.pid} started {len(servers)} servers (processes "
            f"{', '.join(map(str, sorted(servers)))}); give the id of one of them"
        )
    if servers:
        return next(iter(servers.values()))
    for one in (given, *below):
        engine = engine_by_libraries(one.pid)
        if engine:
            return given, engine
    name = os.path.basename(given.command[0]) if given.command else "no command line yet, or a kernel thread"
    raise CaptureError(
        f"process {given.pid} ({name}) runs no inference engine and neither do its children; "
        "give the id of an SGLang, vLLM or reference engine process"
    )


def _is_below(one: Process, servers: dict[int, Any], table: dict[int, Process]) -> bool:
    return any(parent.pid in servers for parent in ancestors(one.pid, table))


def _server(root: Process, engine: Engine, below: Sequence[Process]) -> Server:
    family = [root.pid, *(one.pid for one in below)]
    variables = environment(root.pid)
    flags = command_flags(engine, root.command)
    probed = set(probe_sockets(family, variables))
    ranks = rank_processes(root, below, probed)
    listening = listening_ports(family)
    log = next((path for pid in dict.fromkeys((root.pid, *ranks)) if (path := output_file(pid))), None)
    return Server(
        pid=root.pid,
        engine=engine,
        version=package_version(root.pid, _PACKAGES[engine], root.command, variables),
        command=root.command,
        flags=flags,
        environment=variables,
        rank_pids=ranks,
        uid=root.uid,
        host=_host(flags),
        port=_port(engine, flags, listening, log),
        listening=tuple(sorted(listening)),
        started_s=started_at(root.pid),
        log=log,
        libraries=gpu_libraries(ranks),
    )


def _host(flags: dict[str, Any]) -> str:
    host = flags.get("host")
    return host if isinstance(host, str) and host not in ("0.0.0.0", "::", "") else "127.0.0.1"


def _port(engine: Engine, flags: dict[str, Any], listening: dict[int, int], log: Path | None) -> int | None:
    """Return the port of the HTTP endpoint: the one named, the engine's own, the log's, or the only one.

    None where several listen and nothing tells them apart: a request to the wrong one (of a process
    group's store) could disturb the server.
    """
    named = flags.get("port")
    if isinstance(named, int) and named > 0:
        return named
    default = _DEFAULT_PORTS.get(engine)
    if default in listening:
        return default
    for port in ports_in_log(log) if log else ():
        if port in listening:
            return port
    return next(iter(listening)) if len(listening) == 1 else None
