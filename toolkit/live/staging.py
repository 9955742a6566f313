"""A folder that a server's process writes into and that is read from here, then removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from toolkit.errors import CaptureError
from toolkit.live.proc import process

_PREFIX = "toolkit-recording-"
_ABANDONED_S = 60.0


class Staging:
    """`path` is the folder from here, `inner` the same folder as the server names it.

    It is made beside the server's own files, so that it exists on both sides of a container's wall, and
    belongs to `owner`, the server's user.
    """

    def __init__(self, folder: Path, inner_folder: str, owner: int) -> None:
        _remove_abandoned(folder)
        name = f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
        self.path = folder / name
        self.inner = f"{inner_folder.rstrip('/')}/{name}"
        try:
            self.path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(self.path, owner, -1)
        except OSError as error:
            raise CaptureError(
                f"{folder}, where the server would write, cannot be written ({error.strerror}); "
                "run toolkit profile as the server's user or as root"
            ) from None

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove the folders of profilers that were killed."""
    with contextlib.suppress(OSError):
        for entry in folder.glob(f"{_PREFIX}*-*"):
            maker = entry.name.removeprefix(_PREFIX).partition("-")[0]
            idle_s = time.time() - entry.stat().st_mtime
            if maker.isdigit() and process(int(maker)) is None and idle_s > _ABANDONED_S:
                shutil.rmtree(entry, ignore_errors=True)
