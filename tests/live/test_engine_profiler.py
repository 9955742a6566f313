"""The engine's profiler over HTTP: its folder outlives an interruption while a rank may write into it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit.live import engine_profiler
from toolkit.live.engine_profiler import EngineProfiler
from toolkit.live.staging import Staging


def test_the_trace_of_vllm_s_api_process_is_no_rank_s(tmp_path: Path) -> None:
    profiler = EngineProfiler.__new__(EngineProfiler)
    profiler._folder, profiler._before = tmp_path, set()
    profiler._server = SimpleNamespace(rank_pids=(1,))  # type: ignore[assignment]
    (tmp_path / "host_876.async_llm.17.pt.trace.json").write_text("{}")
    of_rank = tmp_path / "dp0_pp0_tp0_dcp0_ep0_rank0.17.pt.trace.json"
    assert profiler._collected(0.5) == {}
    of_rank.write_text("{}")
    assert profiler._collected(5.0) == {0: of_rank}


def test_a_folder_that_ranks_still_write_into_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = EngineProfiler.__new__(EngineProfiler)
    staging = Staging(tmp_path, "/inside", os.getuid())
    profiler._staging, profiler._folder, profiler._before = staging, staging.path, set()
    profiler._server = SimpleNamespace(rank_pids=(1, 2))  # type: ignore[assignment]
    monkeypatch.setattr(engine_profiler, "_GRACE_S", 0.3)
    profiler._writing = True
    profiler.remove()
    assert staging.path.is_dir(), "a rank that finds its folder gone may end"
    for rank in (1, 2):
        (staging.path / f"t-TP-{rank}.trace.json").write_text("{}")
    monkeypatch.setattr(engine_profiler, "_GRACE_S", 5.0)
    profiler.remove()
    assert not staging.path.exists()
