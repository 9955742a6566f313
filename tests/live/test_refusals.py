"""Set-ups that cannot be taken apart are recognised from flags; those that can are not refused."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.live.plan import restart_line
from toolkit.live.refusals import refusal, speculation_note
from toolkit.live.server import Server


def server(engine: Any = "sglang", **fields: Any) -> Server:
    known = {
        "version": "0.5.15",
        "command": ("python",),
        "flags": {},
        "environment": {},
        "rank_pids": (2,),
        "uid": 0,
    }
    return Server(pid=1, engine=engine, **{**known, **fields})


@pytest.mark.parametrize(
    ("engine", "flags", "said"),
    [
        ("sglang", {"enable_dp_attention": True, "dp_size": 8}, "data-parallel attention"),
        ("sglang", {"dp_size": 2}, "2 data-parallel replicas"),
        ("sglang", {"pp_size": 2}, "2 pipeline stages"),
        ("sglang", {"nnodes": 2}, "2 hosts"),
        ("sglang", {"disaggregation_mode": "prefill"}, "no decode cycle"),
        ("sglang", {"enable_multi_layer_eagle": True, "speculative_algorithm": "EAGLE"}, "multi-layer EAGLE"),
        ("sglang", {"speculative_algorithm": "DFLASH"}, "DFLASH"),
        ("sglang", {"speculative_algorithm": "NGRAM"}, "NGRAM"),
        ("vllm", {"speculative_config": {"method": "ngram"}}, "ngram"),
        ("vllm", {"pipeline_parallel_size": 2}, "pipeline"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(engine: str, flags: dict[str, Any], said: str) -> None:
    why = refusal(server(engine), flags)
    assert why is not None
    assert said in why
    assert "\n" not in why
    assert not why.endswith(".")


@pytest.mark.parametrize(
    ("engine", "flags", "note"),
    [
        ("sglang", {}, None),
        ("sglang", {"speculative_algorithm": "EAGLE3", "dp_size": 1, "nnodes": 1}, None),
        ("sglang", {"speculative_algorithm": "NEXTN"}, "NEXTN"),
        ("sglang", {"speculative_algorithm": "STANDALONE"}, "standalone"),
        ("sglang", {"disaggregation_mode": "decode"}, None),
        ("vllm", {"speculative_config": {"method": "deepseek_mtp"}}, "MTP"),
        ("vllm", {"speculative_config": {"method": "eagle3"}}, None),
    ],
)
def test_what_can_be_profiled_is_not_refused(engine: str, flags: dict[str, Any], note: str | None) -> None:
    assert refusal(server(engine), flags) is None
    said = speculation_note(server(engine), flags)
    assert (note or "") in (said or "")
    assert bool(said) == bool(note)


def test_rocm_is_refused() -> None:
    assert "ROCm" in (refusal(server(libraries=frozenset({"torch", "hip"})), {}) or "")


def test_the_restart_line_keeps_the_pythonpath_and_masks_secrets() -> None:
    started = server(
        command=("python", "-m", "sglang.launch_server", "--api-key", "sk-1"),
        environment={"PYTHONPATH": "/a:/b"},
    )
    line = restart_line(started)
    assert line.startswith("PYTHONPATH=")
    assert "probe/site:/a:/b python -m sglang.launch_server" in line
    assert "sk-1" not in line
    assert "TOOLKIT_PROBE_STARTUP" not in line
    assert "TOOLKIT_PROBE_STARTUP=1" in restart_line(server(version="0.5.10.post1", command=("python",)))
