"""The engine's own profiler over HTTP: kernels of a few cycles, one trace a rank."""

from __future__ import annotations

import gzip
import re
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.errors import CaptureError
from toolkit.live.http import HttpError, ServerHttp
from toolkit.live.plan import profiler_folder
from toolkit.live.proc import inner_path
from toolkit.live.server import Server
from toolkit.live.staging import Staging

_START_S = 60.0  # the first start loads CUPTI
_WAIT_S = 180.0
_GRACE_S = 15.0  # after an interruption
_LOOK_S = 0.2
_FRONTEND = ".async_llm."  # vLLM's API process traces itself into the same folder, without kernels
_RANK = re.compile(r"(?i)(?:TP-|_tp|rank[-_]?)(\d+)")


class EngineProfiler:
    """One trace of `cycles` cycles without stacks and shapes; `collect` returns a file for each rank."""

    def __init__(self, server: Server, http: ServerHttp, flags: Mapping[str, Any]) -> None:
        self._server, self._http = server, http
        self._staging: Staging | None = None
        own = profiler_folder(server, flags) if server.engine == "vllm" else None
        if own:
            self._folder, self._inner = inner_path(server.rank_pids[0], own), own
        else:
            temporary = server.environment.get("TMPDIR") or "/tmp"
            outer = inner_path(server.rank_pids[0], temporary)
            self._staging = Staging(outer, temporary, server.uid)
            self._folder, self._inner = self._staging.path, self._staging.inner
        self._before = set(self._files())
        self._stopped = False
        self._writing = False  # ranks may still be writing into the folder

    def start(self, cycles: int) -> None:
        """Begin; the engines that count cycles stop by themselves."""
        body: dict[str, Any] = {
            "output_dir": self._inner,
            "num_steps": cycles,
            "activities": ["CPU", "GPU"],
            "with_stack": False,
            "record_shapes": False,
        }
        self._writing = True
        try:
            self._http.post("/start_profile", {} if self._server.engine == "vllm" else body, _START_S)
        except HttpError as error:
            raise CaptureError(
                f"the engine's profiler did not start ({error}); leave --trace out or see the server's log"
            ) from None

    def stop(self) -> None:
        """End a profile that counts no cycles (vLLM's)."""
        if self._server.engine != "vllm" or self._stopped:
            return
        self._stopped = True
        try:
            self._http.post("/stop_profile", {}, _WAIT_S)
        except HttpError as error:
            raise CaptureError(
                f"the engine's profiler did not stop ({error}); see the server's log"
            ) from None

    def collect(self) -> dict[int, Path]:
        """Wait for the files of all ranks and return them by rank; those that came, after a bounded wait."""
        return self._collected(_WAIT_S)

    def _collected(self, wait_s: float) -> dict[int, Path]:
        end = time.monotonic() + wait_s
        wanted = len(self._server.rank_pids)
        sizes: dict[Path, int] = {}
        while time.monotonic() < end:
            found = {path: path.stat().st_size for path in self._files() if path not in self._before}
            settled = found == sizes  # no file grew since the last look
            sizes = found
            if settled and len(found) >= wanted and all(map(_is_whole, found)):
                self._writing = False
                break
            time.sleep(_LOOK_S)
        return {_rank(path): path for path in sorted(sizes) if _is_whole(path)}

    def _files(self) -> list[Path]:
        found = (path for path in self._folder.glob("*.json*") if ".trace.json" in path.name)
        return sorted(path for path in found if _FRONTEND not in path.name)

    def remove(self) -> None:
        """Remove the folder that was made for the files, unless a rank may still write: that would end it.

        After an interruption the ranks get a while; a folder that stays is removed by a later profile.
        """
        if self._staging is None:
            return
        if self._writing:
            self._collected(_GRACE_S)
        if not self._writing:
            self._staging.remove()


def _rank(path: Path) -> int:
    found = _RANK.search(path.name)
    return int(found[1]) if found else 0


def _is_whole(path: Path) -> bool:
    if path.suffix != ".gz":
        return path.stat().st_size > 0
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
        return True
    except (OSError, EOFError, zlib.error):
        return False
