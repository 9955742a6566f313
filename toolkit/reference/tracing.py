"""The torch profiler of one rank: a trace file named as SGLang names it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity


class Tracer:
    """Starts and stops the profiler; `span` names a range of host time, and costs nothing while it is off."""

    def __init__(self, tp_rank: int, ranks: int = 1) -> None:
        self._rank, self._ranks = tp_rank, ranks
        self._profiler: Any = None
        self._file = Path()
        self._cycles_left: int | None = None

    @property
    def active(self) -> bool:
        return self._profiler is not None

    def start(
        self,
        folder: Path,
        name: str,
        cycles: int | None,
        activities: Sequence[str],
        with_stack: bool,
        record_shapes: bool,
    ) -> None:
        """Trace the next `cycles` cycles, or until `stop`, into `<folder>/<name>-TP-<rank>.trace.json.gz`."""
        if self.active:
            raise RuntimeError("a profile is running; stop it first")
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [ProfilerActivity.CPU] if "CPU" in activities else []
        if "GPU" in activities and torch.cuda.is_available():
            wanted.append(ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(
            activities=wanted or [ProfilerActivity.CPU], with_stack=with_stack, record_shapes=record_shapes
        )
        profiler.start()
        if self._ranks > 1 and not torch.distributed.is_initialized():  # which the profiler would ask
            told = {"rank": self._rank, "world_size": self._ranks}
            profiler.add_metadata_json("distributedInfo", json.dumps(told))
        self._profiler, self._cycles_left = profiler, cycles
        self._file = folder / f"{name}-TP-{self._rank}.trace.json.gz"

    def cycle_done(self) -> None:
        """Count a cycle; the last one asked for ends the profile."""
        if self._profiler is None or self._cycles_left is None:
            return
        self._cycles_left -= 1
        if self._cycles_left <= 0:
            self.stop()

    def stop(self) -> Path | None:
        """Write the trace and return its path; None when no profile runs."""
        if self._profiler is None:
            return None
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        unfinished = self._file.with_name(f".{self._file.name}.part.gz")
        try:
            profiler.export_chrome_trace(str(unfinished))
            os.replace(unfinished, self._file)  # whole or not at all
        except OSError as error:  # whoever asked has taken the folder away: no reason to end a rank
            sys.stderr.write(f"no trace was written to {self._file}: {error}\n")
            return None
        return self._file

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Return a range around some work; on a GPU it is found again through the launches inside it."""
        return torch.profiler.record_function(name) if self.active else contextlib.nullcontext()
