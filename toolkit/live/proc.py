"""What Linux tells of a process under /proc; nothing here knows an engine."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LISTENS = "0A"  # TCP state in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Process:
    """One live process. `command` is empty for a kernel thread or where it may not be read."""

    pid: int
    parent: int
    uid: int
    command: tuple[str, ...]


def process(pid: int) -> Process | None:
    """Return a process; None if it is gone or has ended and only waits for its parent."""
    folder = PROC / str(pid)
    try:
        state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        uid = folder.stat().st_uid
        raw = (folder / "cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    if state in "ZX":
        return None
    words = raw.rstrip(b"\0 ").split(b"\0") if raw.strip(b"\0 ") else []
    return Process(
        pid, int(parent), _real_uid(folder, uid), tuple(word.decode(errors="replace") for word in words)
    )


def _real_uid(folder: Path, owner: int) -> int:
    """Return the user of a process; the folder's owner is root's where the process may not be dumped."""
    try:
        for line in (folder / "status").read_text().splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[2])
    except (OSError, ValueError, IndexError):
        pass
    return owner


def live_processes() -> dict[int, Process]:
    """Return every live process by its id."""
    numbers = [int(name) for name in os.listdir(PROC) if name.isdigit()]
    return {found.pid: found for number in numbers if (found := process(number))}


def descendants(pid: int, table: dict[int, Process]) -> list[Process]:
    """Return the processes below `pid`, parents before their children, in order of id."""
    below: dict[int, list[Process]] = defaultdict(list)
    for one in table.values():
        below[one.parent].append(one)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        own = sorted(below.pop(waiting.pop(0), []), key=lambda one: one.pid)
        found += own
        waiting += [one.pid for one in own]
    return found


def ancestors(pid: int, table: dict[int, Process]) -> list[Process]:
    """Return the parents of `pid`, nearest first, without init."""
    found: list[Process] = []
    at = table.get(pid)
    while at and at.parent > 1 and (at := table.get(at.parent)):
        found.append(at)
    return found


def environment(pid: int) -> dict[str, str]:
    """Return the variables a process was started with; empty where they may not be read.

    A process that renames itself may overwrite them.
    """
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in raw.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def mapped_files(pid: int) -> list[str]:
    """Return the paths of the files mapped into a process, libraries among them."""
    try:
        text = (PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return []
    return sorted({line.split(maxsplit=5)[5] for line in text.splitlines() if "/" in line})


def root_of(pid: int) -> Path:
    """Return the folder under which a process's own paths are found from here: "/" where they are ours."""
    root = PROC / str(pid) / "root"
    try:
        os.listdir(root)
        same_mounts = os.readlink(PROC / str(pid) / "ns" / "mnt") == os.readlink(PROC / "self" / "ns" / "mnt")
        return Path("/") if same_mounts and os.path.samefile(root, "/") else root
    except OSError:
        return Path("/")


def inner_path(pid: int, path: str | Path) -> Path:
    """Return where a path that means something to a process lies from here."""
    if not os.path.isabs(path):
        return PROC / str(pid) / "cwd" / path
    root = root_of(pid)
    return Path(path) if root == Path("/") else root / str(path).lstrip("/")


def inner_pid(pid: int) -> int:
    """Return the id by which a process knows itself: another one inside a container."""
    try:
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    except (OSError, ValueError):
        pass
    return pid


def same_network(pid: int) -> bool:
    """Say whether a process listens on the network of this one; unreadable counts as the same."""
    try:
        return os.readlink(PROC / str(pid) / "ns" / "net") == os.readlink(PROC / "self" / "ns" / "net")
    except OSError:
        return True


def started_at(pid: int) -> float | None:
    """Return when a process began, in seconds of the wall clock."""
    try:
        ticks = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
        uptime = float((PROC / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def output_file(pid: int) -> Path | None:
    """Return the regular file that a process prints to, None for a terminal or a pipe."""
    for number in (1, 2):
        link = PROC / str(pid) / "fd" / str(number)
        try:
            named = os.readlink(link)
        except OSError:
            continue
        path = inner_path(pid, named) if named.startswith("/") else None
        for candidate in (path, link):  # the link opens a file that was renamed or removed
            if candidate is not None and candidate.is_file():
                return candidate
    return None


def listening_ports(pids: Iterable[int]) -> dict[int, int]:
    """Return the TCP ports on which processes listen, each with the process."""
    found: dict[int, int] = {}
    for pid in pids:
        own = _socket_inodes(pid)
        for name in ("tcp", "tcp6"):
            try:
                rows = (PROC / str(pid) / "net" / name).read_text().splitlines()[1:]
            except OSError:
                continue
            for row in (line.split() for line in rows):
                if len(row) > 9 and row[3] == _LISTENS and row[9] in own:
                    found.setdefault(int(row[1].rpartition(":")[2], 16), pid)
    return found


def _socket_inodes(pid: int) -> set[str]:
    folder = PROC / str(pid) / "fd"
    found: set[str] = set()
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found
