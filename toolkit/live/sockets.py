"""Where the probes of a server's ranks listen, seen from outside its container or its environment."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolkit.live.proc import inner_path, inner_pid
from toolkit.probe.wire_names import FOLDER_VARIABLE, socket_folder, socket_name

# the user's number follows, which may be another one inside a container
_FOLDER_PREFIX = os.path.basename(socket_folder("", 0)).removesuffix("0")


@dataclass(frozen=True, slots=True)
class ProbeSocket:
    """A rank's socket: `folder` as it lies from here, `inner_folder` as the rank itself names it."""

    pid: int
    folder: Path
    inner_folder: str
    name: str


def probe_sockets(pids: Iterable[int], environment: dict[str, str]) -> dict[int, ProbeSocket]:
    """Return the socket of each process that has one.

    Looked for where the process puts it (its own $TOOLKIT_PROBE_DIR, else its temporary folder), through
    its root; then in our own $TOOLKIT_PROBE_DIR, which may be that folder mounted from a container.
    """
    found: dict[int, ProbeSocket] = {}
    for pid in pids:
        name = socket_name(inner_pid(pid))
        for folder, inner in _folders(pid, environment):
            if _is_socket(folder / name):
                found[pid] = ProbeSocket(pid, folder, inner, name)
                break
    return found


def _folders(pid: int, environment: dict[str, str]) -> list[tuple[Path, str]]:
    given = environment.get(FOLDER_VARIABLE)
    temporary = [environment[name] for name in ("TMPDIR", "TEMP", "TMP") if environment.get(name)]
    folders = [(inner_path(pid, given), given)] if given else []
    for parent in dict.fromkeys([*temporary, "/tmp", "/var/tmp", "/usr/tmp"]):
        outer = inner_path(pid, parent)
        try:
            names = sorted(entry for entry in os.listdir(outer) if entry.startswith(_FOLDER_PREFIX))
        except OSError:
            continue
        folders += [(outer / name, f"{parent.rstrip('/')}/{name}") for name in names]
    mounted = os.environ.get(FOLDER_VARIABLE)
    if mounted:
        folders.append((Path(mounted), given or (folders[0][1] if folders else mounted)))
    return folders


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
