"""The runs under traces/ are small, private and say the same in every file; first those taken by script."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from toolkit.analysis.trace.annotations import range_meaning
from toolkit.ingest.logs.server_log import read_server_log
from toolkit.schema.client import CLIENT_SCHEMA, ClientResult
from toolkit.schema.run import RUN_SCHEMA, RunInfo
from toolkit.schema.spans import SPANS_SCHEMA, SpanCycle

TRACES = Path(__file__).resolve().parents[2] / "traces"
ALL = sorted(path.parent for path in TRACES.glob("*/run.json"))
FOLDERS = [folder for folder in ALL if "llama-8b-shaped-dummy" not in folder.name]
SPANS = [path for folder in FOLDERS for path in sorted(folder.glob("spans-TP-*.jsonl.gz"))]
TRACED = [folder for folder in FOLDERS if any(folder.glob("trace-TP-*"))]
CONTENTS = {"run.json", "client.json", "server.log"}
VERSIONS = {"sglang": "0.5.15", "vllm": "0.22.0"}
# What the readers look at, besides the server's own start-up lines
BATCH_LINES = {
    "sglang": re.compile(r"\] (Prefill|Decode) batch, "),
    "vllm": re.compile(r"Engine 000: Avg prompt throughput|SpecDecoding metrics: "),
}
START_LINES = {
    "sglang": (re.compile(r"server_args=ServerArgs\("),),
    "vllm": (
        re.compile(r"non-default args: \{"),
        re.compile(r"LLM engine \(v"),
        re.compile(r"Asynchronous scheduling is "),
    ),
}


def name(path: Path) -> str:
    return str(path.relative_to(TRACES))


def run_info(folder: Path) -> RunInfo:
    return msgspec.json.decode((folder / "run.json").read_bytes(), type=RunInfo)


def span_lines(path: Path) -> tuple[dict[str, Any], list[SpanCycle]]:
    header, *cycles = gzip.decompress(path.read_bytes()).splitlines()
    return json.loads(header), [msgspec.json.decode(line, type=SpanCycle) for line in cycles]


def server_argument(folder: Path, argument: str) -> str:
    """Return what SGLang's start-up line, or vLLM's, gives for an argument."""
    text = (folder / "server.log").read_text()
    found = re.search(rf"[( {{']{argument}(?:=|': )('?)([^',)]*)\1[,)}}]", text)
    assert found, f"{folder.name}: server.log does not say {argument}"
    return found[2]


def of_engine(engine: str) -> list[Path]:
    return [folder for folder in FOLDERS if f"-{engine}-" in folder.name]


def log_split(folder: Path) -> tuple[list[str], list[str]]:
    """Return the start-up lines of a log and all others."""
    patterns = START_LINES[run_info(folder).engine or ""]
    lines = (folder / "server.log").read_text().splitlines()
    start = [line for line in lines if any(pattern.search(line) for pattern in patterns)]
    return start, [line for line in lines if line not in start]


def client_rate(folder: Path) -> float:
    client = msgspec.json.decode((folder / "client.json").read_bytes(), type=ClientResult)
    seconds = sum(repeat.seconds for repeat in client.repeats)
    return sum(repeat.output_tokens for repeat in client.repeats) / seconds


def steady_rates(folder: Path) -> list[float]:
    """Return tokens/s of the lines of a full batch whose window no prefill touched."""
    rates: list[float] = []
    after_prefill = True
    for line in log_split(folder)[1]:
        if found := re.search(r"Decode batch, #running-req: (\d+),.* \(token/s\): ([\d.]+)", line):
            if not after_prefill and int(found[1]) == run_info(folder).batch_size:
                rates.append(float(found[2]))
            after_prefill = False
        elif found := re.search(r"generation throughput: ([\d.]+) tokens/s, Running: (\d+) ", line):
            if "prompt throughput: 0.0 " in line and int(found[2]) == run_info(folder).batch_size:
                rates.append(float(found[1]))
        elif "Prefill batch" in line:
            after_prefill = True
    return rates


def test_all_recorded_runs_together_stay_below_8_mb() -> None:
    assert len(FOLDERS) >= 65
    assert sum(path.stat().st_size for path in TRACES.rglob("*") if path.is_file()) < 8_000_000


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_run_folder_holds_nothing_that_belongs_to_nothing(folder: Path) -> None:
    others = {path.name for path in folder.iterdir()} - CONTENTS
    assert all(re.fullmatch(r"spans-TP-\d\.jsonl\.gz|trace-TP-\d\.trace\.json\.gz", o) for o in others)
    assert {path.name for path in folder.iterdir()} >= CONTENTS


@pytest.mark.parametrize("folder", of_engine("sglang"), ids=name)
def test_run_json_agrees_with_the_folder_name_and_the_servers_own_arguments(folder: Path) -> None:
    info = run_info(folder)
    found = re.search(r"-tp(\d+)-k(\d+)-b(\d+)", folder.name)
    assert found
    assert (info.tp_size, info.num_steps, info.batch_size) == tuple(map(int, found.groups()))
    assert server_argument(folder, "tp_size") == str(info.tp_size)
    assert server_argument(folder, "attention_backend") == info.backend
    assert (server_argument(folder, "disable_overlap_schedule") == "False") == info.overlap_schedule
    assert info.overlap_schedule == ("-nooverlap" not in folder.name)
    custom = server_argument(folder, "disable_custom_all_reduce") == "False"
    assert custom == info.captured["custom_all_reduce"] == ("-nccl" not in folder.name)
    speculative = bool(info.num_steps)
    assert server_argument(folder, "speculative_num_steps") == str(info.num_steps if speculative else None)
    assert server_argument(folder, "speculative_eagle_topk") == str(info.topk if speculative else None)
    given = server_argument(folder, "speculative_num_draft_tokens")
    assert given == str(info.num_draft_tokens if speculative else None)


@pytest.mark.parametrize("folder", of_engine("vllm"), ids=name)
def test_run_json_agrees_with_the_folder_name_and_the_engines_own_arguments(folder: Path) -> None:
    info = run_info(folder)
    found = re.search(r"-tp(\d+)-k(\d+)-b(\d+)", folder.name)
    assert found
    assert (info.tp_size, info.num_steps, info.batch_size) == tuple(map(int, found.groups()))
    text = "\n".join(log_split(folder)[0])
    assert f"LLM engine (v{info.engine_version}) " in text
    assert f"tensor_parallel_size={info.tp_size}," in text
    assert server_argument(folder, "attention_backend") == info.backend
    assert ("Asynchronous scheduling is enabled" in text) == info.overlap_schedule
    if info.num_steps:
        assert server_argument(folder, "num_speculative_tokens") == str(info.num_steps)
        assert server_argument(folder, "rejection_sample_method") == "synthetic"
    else:
        assert "speculative_config=None," in text


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_run_json_says_what_the_reader_of_logs_finds_in_the_log(folder: Path) -> None:
    info, server = run_info(folder), read_server_log(folder / "server.log").server
    assert server
    for fact in ("engine", "tp_size", "num_steps", "num_draft_tokens", "overlap_schedule", "backend"):
        assert getattr(server, fact) == getattr(info, fact), fact
    assert server.engine_version in (None, info.engine_version)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_run_json_is_a_run_record_and_names_every_setting_of_its_group(folder: Path) -> None:
    stored = json.loads((folder / "run.json").read_text())
    assert stored.pop("schema") == RUN_SCHEMA
    younger = {"graph_sizes", "largest_graph"}  # than these runs; the log says them
    assert set(stored) == set(RunInfo.__slots__) - younger
    info = run_info(folder)
    assert info.engine_version == VERSIONS[info.engine or ""]
    assert (info.gpu, info.model) == ("NVIDIA H200", "llama-8b-shaped-dummy")
    assert info.num_draft_tokens == (info.num_steps or 0) + 1
    assert folder.name.startswith(info.captured["date"])
    assert folder.name not in info.captured["same_server_start_as"]
    assert all((TRACES / other).is_dir() for other in info.captured["same_server_start_as"])


def test_one_model_name_means_one_shape() -> None:
    shapes = [run_info(folder).captured["model_shape"] for folder in FOLDERS]
    assert all(shape == shapes[0] for shape in shapes)
    drafts = [
        run_info(folder).captured["draft_model_shape"] for folder in FOLDERS if run_info(folder).num_steps
    ]
    assert all(draft == drafts[0] for draft in drafts)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_speculative_runs_say_that_their_acceptance_is_simulated(folder: Path) -> None:
    info = run_info(folder)
    assert info.acceptance == ("simulated" if info.num_steps else None)
    assert info.draft_tp == (info.tp_size if info.num_steps else None)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_folders_with_a_trace_say_whether_stacks_were_on(folder: Path) -> None:
    ranks = list(folder.glob("trace-TP-*"))
    info = run_info(folder)
    assert info.with_stack == (info.captured["trace"]["with_stack"] if ranks else None)
    assert not ranks or len(ranks) == info.tp_size
    assert ("trace" in info.captured) == bool(ranks)


@pytest.mark.parametrize("folder", TRACED, ids=name)
def test_a_trace_holds_the_cycles_that_run_json_says_and_none_of_what_was_stripped(folder: Path) -> None:
    captured = run_info(folder).captured["trace"]
    for path in sorted(folder.glob("trace-TP-*")):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        events = trace["traceEvents"]
        assert not {event.get("cat") for event in events} & set(captured["stripped"])
        assert bool(trace.get("with_stack")) == captured["with_stack"]
        assert bool(trace.get("record_shapes")) == captured["record_shapes"]
        ranges = [range_meaning(e["name"]) for e in events if e.get("cat") == "user_annotation"]
        targets = [meaning for meaning in ranges if meaning and meaning.label == "target"]
        assert len(targets) == captured["cycles"]
        assert {target.batch_size for target in targets} == {run_info(folder).batch_size}


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_the_log_holds_the_arguments_and_batches_of_this_load_only(folder: Path) -> None:
    info = run_info(folder)
    start, lines = log_split(folder)
    assert len(start) == len(START_LINES[info.engine or ""])
    assert lines
    assert all(BATCH_LINES[info.engine or ""].search(line) for line in lines)
    running = {
        int(found) for found in re.findall(r"(?:batch, #running-req|Running): (\d+)", "\n".join(lines))
    }
    # requests of one load may end one after another, and vLLM's last line of a load comes when none is left
    assert max(running) == info.batch_size or info.engine == "vllm"
    assert running <= set(range((info.batch_size or 0) + 1))


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_accept_rates_of_the_log_are_the_correct_share_of_the_drafts_proposed(folder: Path) -> None:
    steps = run_info(folder).num_steps or 0
    text = "\n".join(log_split(folder)[1])
    said = [(float(a), float(r)) for a, r in re.findall(r"accept len: ([\d.]+), accept rate: ([\d.]+)", text)]
    said += [
        (float(a), float(r) / 100)
        for a, r in re.findall(r"acceptance length: ([\d.]+),.*acceptance rate: ([\d.]+)%", text)
    ]
    assert bool(said) == bool(steps)
    assert all(abs((length - 1) / steps - rate) < 0.011 for length, rate in said)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_the_clients_rate_is_that_of_the_log_less_prefill_and_pauses(folder: Path) -> None:
    rates = steady_rates(folder)
    if not rates:  # vLLM's lines come once a second, and short loads have a prefill in each
        assert run_info(folder).engine == "vllm"
        return
    share = client_rate(folder) / median(rates)
    paused = {"uneven", "first_cycle"} & set(run_info(folder).captured)
    assert share < 1.06
    assert share > (0.5 if paused else 0.88)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_client_counts_fit_the_load(folder: Path) -> None:
    text = (folder / "client.json").read_bytes()
    assert json.loads(text)["schema"] == CLIENT_SCHEMA
    client, info = msgspec.json.decode(text, type=ClientResult), run_info(folder)
    assert client.batch_size == info.batch_size
    assert client.repeats
    assert not client.requests or len(client.requests) in (1, len(client.repeats) * (client.batch_size or 0))
    for repeat in client.repeats:
        per_request = repeat.output_tokens // (client.batch_size or 1)
        assert (client.prompt_tokens or 0) + per_request // 2 == info.context_tokens
    for request in client.requests:
        assert sum(request.correct_drafts_histogram) == (request.verify_cycles or 0)
        kept = sum(i * count for i, count in enumerate(request.correct_drafts_histogram))
        assert kept == (request.num_correct_drafts or 0)
        assert (request.num_proposed_drafts or 0) == (request.verify_cycles or 0) * (info.num_steps or 0)


@pytest.mark.parametrize(
    "folder", [folder for folder in of_engine("vllm") if run_info(folder).num_steps], ids=name
)
def test_the_engines_counters_fit_the_load(folder: Path) -> None:
    info = run_info(folder)
    client = msgspec.json.decode((folder / "client.json").read_bytes(), type=ClientResult)
    assert client.requests == ()  # the counters are of all requests together
    counters = info.captured["engine_counters"]
    assert counters["num_draft_tokens"] == counters["num_drafts"] * (info.num_steps or 0)
    assert counters["num_accepted_tokens"] == sum(counters["num_accepted_tokens_per_pos"])
    committed = counters["num_drafts"] + counters["num_accepted_tokens"]
    asked = sum(repeat.output_tokens for repeat in client.repeats)
    requests = len(client.repeats) * (client.batch_size or 0)
    # a prefill yields a request's first token; its last cycle may run past the end
    assert abs(committed - asked) <= requests * (info.num_steps or 0)


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
    for folder in ALL:
        for path in folder.iterdir():
            text = path.read_bytes()
            text = gzip.decompress(text) if path.suffix == ".gz" else text
            assert not re.search(rb"/home/|/root/|/usr/|/tmp/|site-packages|\.py\(\d", text), path
            assert not re.search(rb"(api_key|password)='(?!\*)", text), path
            assert b'"cat": "python_function"' not in text
