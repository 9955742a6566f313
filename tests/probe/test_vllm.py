"""The probe inside a made-up vLLM with the real names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.probe.vllm_tree import write_vllm
from toolkit.ingest.spans import read_spans
from toolkit.probe.where import site_folder


def profiled(folder: Path, *words: str) -> tuple[dict[str, Any], Any]:
    """Run the driver; return the probe's status and the spans."""
    driver = write_vllm(folder)
    environment = {
        "PYTHONPATH": f"{site_folder()}{os.pathsep}{folder}",
        "TOOLKIT_PROBE_DIR": str(folder / "s"),
    }
    command = [sys.executable, str(driver), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    said = json.loads(ran.stdout)
    return said["status"], read_spans(Path(said["stopped"]["spans_file"]))


@pytest.mark.parametrize("words", [("async",), ("sync",)])
def test_a_cycle_is_verify_sample_and_draft_with_each_draft_forward(
    tmp_path: Path, words: tuple[str]
) -> None:
    status, spans = profiled(tmp_path, *words)
    assert (status["engine"], status["engine_version"], status["tp_rank"]) == ("vllm", "0.22.0", 1)
    assert set(status["hooks"]) == {"cycle", "verify", "sample", "draft", "acceptance", "collective"}
    assert set(status["hooks"].values()) == {"ok"}
    assert status["args"]["num_steps"] == 3 and status["args"]["draft_tp"] == 2
    assert spans.tp_rank == 1 and [cycle.cycle for cycle in spans.cycles] == [1, 2, 3, 4], (
        "a prefill came first"
    )
    for cycle in spans.cycles:
        assert cycle.stage_us == pytest.approx({"verify": 5000, "sample": 60, "draft": 690}, abs=0.01)
        assert (cycle.batch_size, cycle.padded_batch_size, cycle.context_tokens) == (2, 4, 150)
        assert (cycle.num_steps, cycle.num_draft_tokens, cycle.correct_drafts) == (3, 4, (0, 1))
        assert cycle.graph == {"verify": True, "sample": False, "draft": False}
    forwards = [cycle.draft_steps_us for cycle in spans.cycles]
    assert forwards[::2] == [pytest.approx((200, 200, 200), abs=0.01)] * 2 and forwards[1::2] == [None] * 2
    collectives = [cycle.collectives_us for cycle in spans.cycles]
    assert collectives[1::2] == [{"draft": pytest.approx((7, 7, 7), abs=0.01)}] * 2, (
        "every other sampled cycle"
    )
    assert collectives[::2] == [None] * 2


def test_plain_decoding_is_a_decode_and_a_sample(tmp_path: Path) -> None:
    status, spans = profiled(tmp_path, "plain")
    assert set(status["hooks"]) == {"cycle", "verify", "sample", "collective"}
    for cycle in spans.cycles:
        assert cycle.stage_us == pytest.approx({"decode": 5000, "sample": 60}, abs=0.01)
        assert (cycle.num_steps, cycle.num_draft_tokens, cycle.correct_drafts) == (0, 1, None)
