"""Where a server decodes plainly, which restart it needs otherwise, and when a baseline is too old."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from toolkit.ingest.run_json import write_run_info
from toolkit.live.baseline import baseline_loads, restart_for_baseline, stale_baseline
from toolkit.live.server import Server
from toolkit.schema.profile import Load
from toolkit.schema.run import RunInfo


def server(engine: Any = "sglang", command: tuple[str, ...] = (), started_s: float | None = None) -> Server:
    return Server(
        pid=os.getpid(),
        engine=engine,
        version=None,
        command=command,
        flags={},
        environment={},
        rank_pids=(1,),
        uid=0,
        started_s=started_s,
    )


def test_an_adaptive_tier_of_no_steps_is_the_baseline(tmp_path: Path) -> None:
    path = tmp_path / "adaptive.json"
    tiers = {"1": {"candidate_steps": [3]}, "8": {"candidate_steps": [0]}, "32": {"candidate_steps": [0, 1]}}
    path.write_text(json.dumps({**tiers, "ema_alpha": 0.2}))
    flags = {"speculative_adaptive": True, "speculative_adaptive_config": str(path)}
    loads = baseline_loads(server(), flags, [Load(batch_size=1), Load(batch_size=16), Load(batch_size=64)])
    assert [(load.batch_size, load.plain) for load in loads] == [(8, True), (16, True), (31, True)]


def test_a_range_of_no_tokens_is_vllms_baseline() -> None:
    flags = {"speculative_config": {"num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 16, 0]]}}
    assert [load.batch_size for load in baseline_loads(server("vllm"), flags, [Load(batch_size=2)])] == [5]


def test_a_server_that_cannot_switch_is_told_its_restart() -> None:
    command = ("python", "-m", "sglang.launch_server", "--speculative-num-steps", "3", "--tp", "2")
    assert baseline_loads(server(), {}, [Load()]) == ()
    assert restart_for_baseline(server(command=command)).endswith(": python -m sglang.launch_server --tp 2")


def test_a_baseline_of_another_version_or_another_week_is_stale(tmp_path: Path) -> None:
    info = RunInfo(engine="sglang", engine_version="0.5.15", model="m", tp_size=1, num_steps=3)
    taken = {"date": "2026-01-01T00:00:00+00:00"}
    plain = RunInfo(
        engine="sglang", engine_version="0.5.15", model="m", tp_size=1, num_steps=0, captured=taken
    )
    (tmp_path / "base").mkdir()
    write_run_info(tmp_path / "base" / "run.json", plain)
    day_s = 86_400.0
    first_s = 1_767_225_600.0  # 2026-01-01 in UTC
    assert stale_baseline(tmp_path, server(started_s=first_s + day_s / 2), info) is None
    assert "7 days older" in (stale_baseline(tmp_path, server(started_s=first_s + 7 * day_s), info) or "")
    newer = RunInfo(engine="sglang", engine_version="0.5.16", model="m", tp_size=1, num_steps=3)
    assert "engine_version 0.5.15" in (stale_baseline(tmp_path, server(), newer) or "")
