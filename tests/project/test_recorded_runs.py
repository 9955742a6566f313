"""The runs under traces/ are small, private and say the same in every file."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolkit.schema.client import CLIENT_SCHEMA, ClientResult
from toolkit.schema.run import RUN_SCHEMA, RunInfo
from toolkit.schema.spans import SPANS_SCHEMA, SpanCycle

TRACES = Path(__file__).resolve().parents[2] / "traces"
RUNS = sorted(TRACES.glob("*/run.json"))
FOLDERS = [path.parent for path in RUNS]
SPANS = [path for folder in FOLDERS for path in sorted(folder.glob("spans-TP-*.jsonl.gz"))]
CONTENTS = {"run.json", "client.json", "server.log"}


def name(path: Path) -> str:
    return str(path.relative_to(TRACES))


def run_info(folder: Path) -> RunInfo:
    return msgspec.json.decode((folder / "run.json").read_bytes(), type=RunInfo)


def span_lines(path: Path) -> tuple[dict[str, Any], list[SpanCycle]]:
    header, *cycles = gzip.decompress(path.read_bytes()).splitlines()
    return json.loads(header), [msgspec.json.decode(line, type=SpanCycle) for line in cycles]


def server_argument(folder: Path, argument: str) -> str:
    found = re.search(rf"[( ]{argument}=('?)([^',)]*)\1[,)]", (folder / "server.log").read_text())
    assert found, f"{folder.name}: server.log does not say {argument}"
    return found[2]


def test_all_recorded_runs_together_stay_below_8_mb() -> None:
    assert len(FOLDERS) >= 9
    assert sum(path.stat().st_size for path in TRACES.rglob("*") if path.is_file()) < 8_000_000


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_run_folder_holds_nothing_that_belongs_to_nothing(folder: Path) -> None:
    others = {path.name for path in folder.iterdir()} - CONTENTS
    assert all(re.fullmatch(r"spans-TP-\d\.jsonl\.gz|trace-TP-\d\.trace\.json\.gz", o) for o in others)
    assert {path.name for path in folder.iterdir()} >= CONTENTS


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_run_json_agrees_with_the_folder_name_and_the_servers_own_arguments(folder: Path) -> None:
    info = run_info(folder)
    found = re.search(r"-tp(\d+)-k(\d+)-b(\d+)", folder.name)
    assert found
    assert (info.tp_size, info.num_steps, info.batch_size) == tuple(map(int, found.groups()))
    assert server_argument(folder, "tp_size") == str(info.tp_size)
    assert server_argument(folder, "attention_backend") == info.backend
    assert (server_argument(folder, "disable_overlap_schedule") == "False") == info.overlap_schedule
    speculative = bool(info.num_steps)
    assert server_argument(folder, "speculative_num_steps") == str(info.num_steps if speculative else None)
    assert server_argument(folder, "speculative_eagle_topk") == str(info.topk if speculative else None)
    given = server_argument(folder, "speculative_num_draft_tokens")
    assert given == str(info.num_draft_tokens if speculative else None)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_run_json_is_a_run_record_and_names_every_setting_of_its_group(folder: Path) -> None:
    stored = json.loads((folder / "run.json").read_text())
    assert stored.pop("schema") == RUN_SCHEMA
    assert set(stored) == set(RunInfo.__slots__)
    info = run_info(folder)
    assert (info.engine, info.engine_version) == ("sglang", "0.5.15")
    assert (info.gpu, info.model) == ("NVIDIA H200", "llama-8b-shaped-dummy")
    assert info.num_draft_tokens == (info.num_steps or 0) + 1


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_speculative_runs_say_that_their_acceptance_is_simulated(folder: Path) -> None:
    info = run_info(folder)
    assert info.acceptance == ("simulated" if info.num_steps else None)
    assert info.draft_tp == (info.tp_size if info.num_steps else None)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_folders_with_a_trace_say_that_stacks_were_on(folder: Path) -> None:
    ranks = list(folder.glob("trace-TP-*"))
    info = run_info(folder)
    assert info.with_stack == (True if ranks else None)
    assert not ranks or len(ranks) == info.tp_size


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_the_log_holds_the_arguments_and_batches_of_this_load_only(folder: Path) -> None:
    first, *lines = (folder / "server.log").read_text().splitlines()
    assert "server_args=ServerArgs(" in first
    assert all(re.search(r"\] (Prefill|Decode) batch, ", line) for line in lines)
    running = {found[1] for line in lines if (found := re.search(r"Decode batch, #running-req: (\d+)", line))}
    assert running == {str(run_info(folder).batch_size)}


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_client_counts_fit_the_load(folder: Path) -> None:
    text = (folder / "client.json").read_bytes()
    assert json.loads(text)["schema"] == CLIENT_SCHEMA
    client, info = msgspec.json.decode(text, type=ClientResult), run_info(folder)
    assert client.batch_size == info.batch_size
    assert client.repeats
    for repeat in client.repeats:
        per_request = repeat.output_tokens // (client.batch_size or 1)
        assert (client.prompt_tokens or 0) + per_request // 2 == info.context_tokens
    for request in client.requests:
        assert sum(request.correct_drafts_histogram) == (request.verify_cycles or 0)
        kept = sum(i * count for i, count in enumerate(request.correct_drafts_histogram))
        assert kept == (request.num_correct_drafts or 0)
        assert (request.num_proposed_drafts or 0) == (request.verify_cycles or 0) * (info.num_steps or 0)


@pytest.mark.parametrize("path", SPANS, ids=name)
def test_spans_run_forward_and_are_of_their_run(path: Path) -> None:
    header, cycles = span_lines(path)
    info = run_info(path.parent)
    assert header["schema"] == SPANS_SCHEMA
    assert path.name == f"spans-TP-{header['tp_rank']}.jsonl.gz"
    for before, after in pairwise(cycles):
        assert before.t_ns < after.t_ns
        assert before.cycle < after.cycle
    for cycle in cycles:
        assert (cycle.batch_size, cycle.num_steps) == (info.batch_size, info.num_steps)
        assert set(cycle.stage_us or {}) == {"draft", "verify", "draft_extend"}


@pytest.mark.parametrize("path", SPANS, ids=name)
def test_no_warm_up_prefill_or_profiled_cycle_is_among_the_spans(path: Path) -> None:
    _, cycles = span_lines(path)
    assert max(stage or 0 for cycle in cycles for stage in (cycle.stage_us or {}).values()) < 15_000
    within = [b.t_ns - a.t_ns for a, b in pairwise(cycles) if b.cycle == a.cycle + 1]
    assert len(within) > 200
    assert max(within) < 25_000_000


def test_the_draft_graph_is_as_long_as_its_forwards_and_what_lies_between() -> None:
    timed = [
        cycle
        for path in SPANS
        for cycle in span_lines(path)[1]
        if cycle.draft_steps_us is not None and cycle.graph_us and cycle.stage_us
    ]
    assert len(timed) > 100
    for cycle in timed:
        assert len(cycle.draft_steps_us or ()) == 4
        between = (cycle.graph_us or {})["draft"] or 0
        between -= sum(cycle.draft_steps_us or ())
        assert 55 < between < 80  # three selections of about 22 us
        assert ((cycle.stage_us or {})["draft"] or 0) > ((cycle.graph_us or {})["draft"] or 0)


def test_nothing_in_the_runs_names_a_path_a_secret_or_a_stack() -> None:
    for folder in FOLDERS:
        for path in folder.iterdir():
            text = path.read_bytes()
            text = gzip.decompress(text) if path.suffix == ".gz" else text
            assert not re.search(rb"/home/|/root/|/usr/|site-packages|\.py\(\d", text), path
            assert not re.search(rb"(api_key|password)='(?!\*)", text), path
            assert b'"cat": "python_function"' not in text
