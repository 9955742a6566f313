"""The runs under traces/ that `toolkit profile` wrote on GPUs: whole, and the same in every file."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from toolkit.ingest.client import read_client
from toolkit.ingest.run_json import read_run_info
from toolkit.ingest.spans import read_spans
from toolkit.schema.client import ClientResult
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans

TRACES = Path(__file__).resolve().parents[2] / "traces"
FOLDERS = sorted(TRACES.glob("*-llama-8b-shaped-dummy-*"))
LAYERS = 32


def name(path: Path) -> str:
    return path.name.partition("-llama-8b-shaped-dummy-")[2] + path.name[10:15]


def run_info(folder: Path) -> RunInfo:
    return read_run_info(folder / "run.json")


def spans(folder: Path) -> list[RankSpans]:
    return [read_spans(path) for path in sorted(folder.glob("spans-TP-*"))]


def client(folder: Path) -> ClientResult:
    return read_client(folder / "client.json")


def of(pattern: str) -> list[Path]:
    return [folder for folder in FOLDERS if re.search(pattern, folder.name)]


def test_every_step_count_and_batch_size_of_the_sweeps_is_there() -> None:
    one = {(run_info(f).num_steps, run_info(f).batch_size) for f in of("sglang.*-tp1-")}
    two = {(run_info(f).num_steps, run_info(f).batch_size) for f in of("sglang.*-tp2-")}
    assert one >= {(steps, batch) for steps in (0, 1, 2, 3, 5, 7) for batch in (1, 4, 8)}
    assert two >= {(steps, batch) for steps in (0, 1, 3, 5) for batch in (1, 8)}
    assert {run_info(f).num_steps for f in of("-c4096")} == {0, 3}
    assert len(of("vllm")) >= 1


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_profiled_run_is_whole_and_named_by_its_settings(folder: Path) -> None:
    info = run_info(folder)
    found = re.search(r"-tp(\d+)-k(\d+)-b(\d+)", folder.name)
    assert found
    assert (info.tp_size, info.num_steps, info.batch_size) == tuple(map(int, found.groups()))
    assert (info.gpu, info.model) == ("NVIDIA H200", "llama-8b-shaped-dummy")
    assert info.captured["complete"] is True and info.captured["how"] == "probe"
    assert info.acceptance == ("simulated" if info.num_steps else None)
    assert (
        set(info.captured["probe"]["hooks"].values()) == {"ok"} and info.captured["probe"]["in_graph"] == "ok"
    )
    files = {path.name for path in folder.iterdir()}
    assert files >= {"run.json", "client.json", "gpu.jsonl"}
    assert {f"spans-TP-{rank}.jsonl.gz" for rank in range(info.tp_size or 0)} <= files
    assert "server.log" in files or info.engine != "sglang"  # vLLM prints few lines, and none offline


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_spans_of_every_rank_are_of_one_load_and_run_forward(folder: Path) -> None:
    info = run_info(folder)
    ranks = spans(folder)
    assert len({len(rank.cycles) for rank in ranks}) == 1, "ranks record the same cycles"
    for rank in ranks:
        assert not rank.damage and rank.dropped == 0 and len(rank.cycles) >= 400
        assert all(a.t_ns < b.t_ns and a.cycle < b.cycle for a, b in pairwise(rank.cycles))
        whole = [cycle for cycle in rank.cycles if cycle.batch_size == info.batch_size]
        assert len(whole) > 0.85 * len(rank.cycles), "requests of a batch may start and end apart"
        assert {cycle.num_steps for cycle in rank.cycles} == {info.num_steps}


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_sampled_cycles_have_the_graph_the_forwards_and_the_collectives(folder: Path) -> None:
    info = run_info(folder)
    steps = info.num_steps or 0
    forwards = {"sglang": max(steps - 1, 0), "vllm": steps}[info.engine or ""]
    for rank in spans(folder):
        main = "verify" if steps else "decode"
        timed = [cycle.graph_us[main] for cycle in rank.cycles if cycle.graph_us and cycle.graph_us.get(main)]
        assert len(timed) >= 10
        drafts = [cycle.draft_steps_us for cycle in rank.cycles if cycle.draft_steps_us]
        assert {len(one) for one in drafts} == ({forwards} if forwards else set())
        lists = [cycle.collectives_us for cycle in rank.cycles if cycle.collectives_us]
        counts = {(phase, len(one or ())) for found in lists for phase, one in found.items()}
        # two all-reduces a layer, one of the embedding, the logits' all-gather
        assert ((main, 2 * LAYERS + 2) in counts) == ((info.tp_size or 1) > 1)
        assert len(counts) == len({phase for phase, _ in counts}), "a phase always has as many"


@pytest.mark.parametrize("folder", of("-k[1-7]-"), ids=name)
def test_accepted_drafts_of_spans_are_those_that_the_engine_counted(folder: Path) -> None:
    requests = client(folder).requests
    cycles = [cycle for cycle in spans(folder)[0].cycles if cycle.correct_drafts]
    kept = [one for cycle in cycles for one in cycle.correct_drafts or ()]
    counted = sum(request.num_correct_drafts or 0 for request in requests)
    made = sum(request.verify_cycles or 0 for request in requests)
    assert counted / made == pytest.approx(1.0), "an accept length of 2 was asked for"
    assert sum(kept) / len(kept) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_the_clients_rate_is_that_of_the_cycles_less_prefill_and_pauses(folder: Path) -> None:
    info, done = run_info(folder), client(folder)
    rate = sum(one.output_tokens for one in done.repeats) / sum(one.seconds for one in done.repeats)
    cycles = [cycle for cycle in spans(folder)[0].cycles if cycle.batch_size == info.batch_size]
    periods = [(b.t_ns - a.t_ns) / 1e9 for a, b in pairwise(cycles) if b.cycle == a.cycle + 1]
    length = 2.0 if info.num_steps else 1.0
    assert 0.7 < rate / ((info.batch_size or 0) * length / median(periods)) < 1.03


def test_three_starts_of_one_server_give_the_same_cycle_within_3_percent() -> None:
    starts = of("sglang.*-tp1-k5-b1(-r[02])?$")
    assert len({run_info(folder).captured["server_started"] for folder in starts}) == 3
    cycles = []
    for folder in starts:
        found = spans(folder)[0].cycles
        cycles.append(median(b.t_ns - a.t_ns for a, b in pairwise(found) if b.cycle == a.cycle + 1))
    assert max(cycles) / min(cycles) < 1.03
