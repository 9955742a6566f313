"""Where a rank's socket lies: a folder that is the user's alone, and what dead ranks left in it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import tempfile

from . import wire

_ADDRESS_BYTES = 100  # an address holds 107; the folder's descriptor stands for a longer path


def own_folder() -> str:
    """Return the socket folder, made when it is missing. OSError when it is not the user's own.

    A folder that TOOLKIT_PROBE_DIR names may be shared with another container; peers are checked anyway.
    """
    named = os.environ.get(wire.FOLDER_VARIABLE)
    folder = named or wire.socket_folder(tempfile.gettempdir(), os.getuid())
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.stat(folder) if named else os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{folder} is no folder")
    if named:
        return folder
    if found.st_uid != os.getuid():
        raise OSError(f"{folder} belongs to user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(folder, 0o700)
    return folder


def remove_stale(folder: str) -> None:
    """Remove sockets of ranks that are dead: no such process here, and nobody who answers."""
    for name in os.listdir(folder):
        stem, dot, ending = name.partition(".")
        if ending != "sock" or not dot or not stem.isdigit():
            continue
        if int(stem) == os.getpid() or not (_alive(int(stem)) or _answers(os.path.join(folder, name))):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def listen(folder: str) -> tuple[socket.socket, str]:
    """Return a listening socket of this process, mode 0600, and its path."""
    path = os.path.join(folder, wire.socket_name(os.getpid()))
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{handle}/{wire.socket_name(os.getpid())}"
        server.bind(path if len(os.fsencode(path)) < _ADDRESS_BYTES else short)
        os.chmod(path, 0o600)
        server.listen(4)
    except OSError:
        server.close()
        raise
    finally:
        os.close(handle)
    server.setblocking(False)
    return server, path


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _answers(path: str) -> bool:
    """Say whether somebody listens: in a shared folder the process may be another container's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(0.2)
        try:
            client.connect(path)
        except OSError:
            return False
    return True
