"""The probe inside the reference engine, which runs on torch without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.probe.conftest import Client, until
from toolkit.ingest.spans import read_spans
from toolkit.probe.where import site_folder

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Return the address of a server of two ranks, K=3, simulated acceptance."""
    path = os.pathsep.join([str(ROOT), str(site_folder())])
    command = [sys.executable, "-m", "toolkit.reference", "--tp", "2", "--steps", "3"]
    with subprocess.Popen(
        [*command, "--accept-by-position", ".7,.5,.3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TOOLKIT_PROBE_DIR": str(tmp_path / "sockets")},
    ) as process:
        assert process.stdout is not None
        said = ""
        while not said.startswith("ready"):
            said = process.stdout.readline()
            assert said, "the server ended"
        yield said.split()[1]
        process.terminate()


def generate(address: str, tokens: int) -> list[dict[str, Any]]:
    """Serve two requests of that many tokens; return what the server counted."""
    sampling = {"max_new_tokens": tokens, "ignore_eos": True}
    body = json.dumps({"input_ids": [[3, 4, 5], [6, 7]], "sampling_params": sampling}).encode()
    request = urllib.request.Request(f"{address}/generate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [one["meta_info"] for one in json.loads(answer.read())]


def test_both_ranks_record_the_cycles_that_the_server_counts(
    address: str, tmp_path: Path, connect: Callable[[Path], Client]
) -> None:
    clients = [connect(path) for path in sorted((tmp_path / "sockets").iterdir())]
    status = [client.ask(do="status") for client in clients]
    assert sorted(one["tp_rank"] for one in status) == [0, 1]
    assert all(set(one["hooks"].values()) == {"ok"} and one["clock"] is None for one in status)
    for client in clients:
        client.ask(do="start", folder=str(tmp_path), steps_every=5)
    counted = generate(address, 60)
    for client in clients:
        until(lambda one=client: one.ask(do="status")["recorded"] > 0)
        assert client.ask(do="stop")["dropped"] == 0
    ranks = [read_spans(tmp_path / f"spans-TP-{rank}.jsonl").cycles for rank in (0, 1)]
    assert [one.correct_drafts for one in ranks[0]] == [one.correct_drafts for one in ranks[1]]
    kept = sum(sum(cycle.correct_drafts or ()) for cycle in ranks[0])
    assert kept == sum(one["spec_num_correct_drafts"] for one in counted)
    assert sum(cycle.batch_size or 0 for cycle in ranks[0]) == sum(one["spec_verify_ct"] for one in counted)
    for cycle in ranks[0]:
        assert set(cycle.stage_us or ()) == {"draft", "verify", "sample", "draft_extend"}
        assert (cycle.num_steps, cycle.num_draft_tokens) == (3, 4)
    assert [len(cycle.draft_steps_us or ()) for cycle in ranks[0][::5]][:4] == [2, 0, 2, 0]
    for turn, cycle in enumerate(ranks[1][::5]):
        found = cycle.collectives_us or {}
        # four layers with two all-reduces each, one of the embedding, the logits' all-gather
        assert [len(found.get("verify", ())), bool(found.get("draft"))] == (
            [10, True] if turn % 2 else [0, False]
        )
