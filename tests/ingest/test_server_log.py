"""Log lines of every form, whole and cut, and whole logs."""

from __future__ import annotations

import dataclasses
import gzip
import json
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import BadInputError
from toolkit.ingest.logs.server_log import lines_as_json, read_log_line, read_server_log
from toolkit.schema.log import LogLine, Ranks

DATA = Path(__file__).parent.parent / "data"
EXPECTED = [json.loads(line) for line in (DATA / "loglines.expected.jsonl").read_text().splitlines()]
PUBLISHED = [
    line
    for line in (DATA / "loglines.txt").read_text().split("\n")
    if line.strip() and not line.startswith("#")
]
DECODE = (
    "[2025-10-22 10:27:57 TP0] Decode batch. #running-req: 12, #token: 108, token usage: 0.00, "
    "accept len: 2.17, "
    "accept rate: 0.54, cuda graph: True, gen throughput (token/s): 178.86, #queue-req: 34, "
)
SPEC = (
    "(APIServer pid=1) INFO 09-04 11:01:16 [metrics.py:125] SpecDecoding metrics: "
    "Mean acceptance length: 2.37, "
    "Current speculative depth: 3, Accepted throughput: 77.90 tokens/s, Drafted throughput: 113.40 tokens/s, "
    "Accepted: 779 tokens, Drafted: 1134 tokens, Per-position acceptance rate: 0.854, 0.316, 0.200, "
    "Avg Draft acceptance rate: 45.7%"
)
STATISTICS = (
    "(EngineCore_DP1 pid=7) INFO 02-03 19:11:07 [loggers.py:72] Engine 001: "
    "Avg prompt throughput: 108.0 tokens/s, Avg generation throughput: 138.7 tokens/s, "
    "Running: 128 reqs, Waiting: 0 reqs, GPU KV cache usage: 19.8%, Prefix cache hit rate: 12.0%"
)
WHOLE = [*PUBLISHED, DECODE, SPEC, STATISTICS]
# What a cut may not falsify; queued_req closes a line, where one number cannot be told from its start.
CUT_FIELDS = [
    "running_req",
    "accept_length",
    "accept_rate",
    "tok_s",
    "graph",
    "timestamp",
    "context_tokens",
    "accept_by_position",
    "num_correct_drafts",
    "num_proposed_drafts",
]


def as_json(line: str) -> dict[str, object]:
    return lines_as_json([read_log_line(line)])[0]


def reading(line: str) -> LogLine:
    return dataclasses.replace(read_log_line(line), timestamp=None, ranks=Ranks(), engine=None)


@pytest.mark.parametrize(("line", "expected"), list(zip(PUBLISHED, EXPECTED, strict=True)))
def test_every_published_line_is_read_as_people_read_it(line: str, expected: dict[str, object]) -> None:
    open_readings = [*expected.get("uncertain_fields", []), "uncertain", "uncertain_fields"]  # type: ignore[misc]
    settled = {key: value for key, value in expected.items() if key not in open_readings}
    found = as_json(line)
    assert {key: found[key] for key in settled} == settled


def test_a_line_prints_the_keys_of_the_contract_in_its_order() -> None:
    assert list(as_json(DECODE)) == [
        *("engine", "kind", "running_req", "accept_length", "accept_rate", "tok_s", "graph", "timestamp"),
        *("ranks", "truncated"),
    ]


@pytest.mark.parametrize("line", WHOLE)
def test_a_cut_line_gives_what_the_whole_one_gives_or_nothing(line: str) -> None:
    whole = read_log_line(line)
    for end in range(len(line)):
        cut = read_log_line(line[:end])
        for name in CUT_FIELDS:
            assert getattr(cut, name) in (None, (), getattr(whole, name)), (name, line[:end])
        for name in ("tp", "dp", "ep", "pp"):
            assert getattr(cut.ranks, name) in (None, getattr(whole.ranks, name)), (name, line[:end])


@pytest.mark.parametrize(
    ("line", "head", "last"),
    [
        (DECODE, "Decode batch", "gen throughput"),
        (SPEC, "SpecDecoding metrics", "Avg Draft"),
        (STATISTICS, "Avg prompt throughput", "Running: 128 reqs"),
    ],
)
def test_a_line_cut_before_its_last_field_is_truncated(line: str, head: str, last: str) -> None:
    ends = range(line.index(head) + len(head), line.index(last))
    assert not [line[:end] for end in ends if not read_log_line(line[:end]).truncated]
    assert not read_log_line(line).truncated


@pytest.mark.parametrize("line", WHOLE)
def test_colour_does_not_change_a_reading(line: str) -> None:
    whole = read_log_line(line)
    for start, stop in (("\x1b[0;36m", "\x1b[0;0m"), ("[1;33m", "[0m"), ("^[[31m", "^[[0m")):
        assert read_log_line(start + line + stop) == whole
        if ": " in line:
            assert read_log_line(line.replace(": ", f": {start}", 1).replace(", ", f"{stop}, ", 1)) == whole


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "sglang-1  | ",
        "(SGLangEngine pid=41820) ",
        "2026-04-19 17:31:23.914 | ",
        "2026-04-19T17:31:23.914Z ",
        "Capturing batches (bs=8 avail_mem=69.45 GB):  12%|█▎        | 1/8 [00:22<02:37, 22.52s/it]",
        "> ",
        "text glued in front",
    ],
)
@pytest.mark.parametrize("line", [DECODE, SPEC, STATISTICS])
def test_a_prefix_changes_no_value_and_no_time_of_the_engine(prefix: str, line: str) -> None:
    whole, found = read_log_line(line), read_log_line(prefix + line)
    assert dataclasses.replace(found, ranks=whole.ranks) == whole
    assert found.ranks == whole.ranks


@given(st.text(max_size=300))
def test_random_text_is_some_line(text: str) -> None:
    assert read_log_line(text).kind in ("decode", "prefill", "spec_metrics", "other")


WORDS = [
    *("Decode batch", ". ", ", ", "#running-req", ": ", "9" * 30, "1.5", "[", "]", "(", "accept len", "..."),
    *("SpecDecoding metrics: ", "Mean acceptance length", "Per-position acceptance rate", "Engine 000: "),
    *("Running", "draft acceptance = ", "MTP Stats", "acceptance_rate=", "12:34:56", "\x1b[", "%", " TP0]"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_known_words_in_any_order_are_some_line(parts: list[str]) -> None:
    found = read_log_line("".join(parts))
    assert found.accept_rate is None or found.accept_rate >= 0


@given(
    running=st.integers(0, 10**6),
    length=st.integers(100, 900),
    rate=st.integers(0, 100),
    tok_s=st.integers(0, 10**7),
    head=st.sampled_from(
        ["Decode batch. ", "Decode batch, ", "Decode batch [123], ", "Decode batch phase=verify, "]
    ),
    order=st.randoms(use_true_random=False),
)
def test_fields_are_read_by_name_in_any_order(running, length, rate, tok_s, head, order) -> None:  # type: ignore[no-untyped-def]
    fields = [
        f"#running-req: {running}",
        f"accept len: {length / 100:.2f}",
        f"accept rate: {rate / 100:.2f}",
        f"gen throughput (token/s): {tok_s / 100:.2f}",
        "npu graph: False",
        "#token: 77",
        "some new thing: 5",
    ]
    order.shuffle(fields)
    found = read_log_line(f"[2026-01-02 03:04:05 DP3 TP1] {head}{', '.join(fields)}, #queue-req: 0")
    assert (found.running_req, found.accept_length, found.accept_rate) == (running, length / 100, rate / 100)
    assert (found.tok_s, found.graph, found.context_tokens) == (tok_s / 100, False, 77)
    assert (found.ranks.dp, found.ranks.tp, found.truncated) == (3, 1, False)


@pytest.mark.parametrize("tail", ["accept rate: 0.3", "accept rate: 0.36", "accept rate", "cuda graph: Tru"])
def test_a_value_that_touches_the_cut_is_not_believed(tail: str) -> None:
    found = read_log_line(
        f"[2026-02-26 14:47:19 TP0] Decode batch, #running-req: 1, accept len: 1.82, {tail}"
    )
    assert (found.accept_length, found.accept_rate, found.graph, found.truncated) == (1.82, None, None, True)


def test_both_parts_of_a_wrapped_line_are_truncated_and_say_what_they_hold() -> None:
    first = read_log_line("[2025-11-06 12:11:03] Decode batch. #running-req: 1, #token: 206, ")
    second = read_log_line("token usage: 0.00, cuda graph: True, gen throughput (token/s): 656.23")
    assert (first.kind, first.running_req, first.tok_s, first.truncated) == ("decode", 1, None, True)
    assert (second.kind, second.graph, second.tok_s, second.truncated) == ("decode", True, 656.23, True)


@pytest.mark.parametrize(
    "line",
    [
        "| {} |",
        "Oct 22 10:27:57 host sglang[123]: {}",
        '{{"log":"{}\\n","stream":"stderr","time":"2025-10-22T10:27:57.123456789Z"}}',
        "2025-10-22T10:27:57.123456789Z stderr F {}",
        "`{}`",
    ],
)
def test_a_line_wrapped_by_a_container_or_a_document_is_whole(line: str) -> None:
    assert read_log_line(line.format(DECODE)) == read_log_line(DECODE)


def test_a_line_shortened_by_dots_says_what_is_left_and_that_it_is_cut() -> None:
    found = read_log_line(
        "Decode batch. #running-req: 3, ... accept len: 2.17, accept rate: 0.5..., cuda graph: True"
    )
    assert (found.running_req, found.accept_length, found.accept_rate) == (3, 2.17, None)
    assert found.truncated


def test_a_request_that_quotes_a_log_is_no_measurement() -> None:
    line = (
        "Receive: obj=GenerateReqInput(text='Decode batch. #running-req: 1, gen throughput (token/s): 1.00')"
    )
    assert read_log_line(line).kind == "other"


def test_thousands_are_not_cut_at_their_comma() -> None:
    assert read_log_line(DECODE.replace("178.86", "1,178.86")).tok_s == 1178.86


def test_of_two_glued_decode_lines_the_first_is_read() -> None:
    found = read_log_line(DECODE.rstrip(", ") + DECODE.replace("12", "99").replace("2.17", "5.00"))
    assert (found.running_req, found.accept_length, found.queued_req) == (12, 2.17, 34)


def test_a_spec_metrics_line_gives_its_window_of_drafts() -> None:
    found = read_log_line(SPEC)
    assert (found.num_correct_drafts, found.num_proposed_drafts) == (779, 1134)
    assert found.accept_by_position == (0.854, 0.316, 0.2)
    assert (found.accept_length, found.accept_rate) == (2.37, 0.457)


def test_a_list_of_position_rates_that_misses_its_end_is_not_given() -> None:
    whole = "SpecDecoding metrics: Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, "
    whole += "Accepted: 150 tokens, Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264"
    assert read_log_line(whole).accept_by_position == (0.543, 0.357, 0.264)
    cut = read_log_line(whole.removesuffix(", 0.264"))
    assert (cut.accept_by_position, cut.truncated) == ((), True)


def test_a_window_without_drafts_prints_no_rate_and_is_whole() -> None:
    line = "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, "
    line += "Drafted throughput: 0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, "
    line += "Per-position acceptance rate: , Avg Draft acceptance rate: nan%"
    found = read_log_line(line)
    assert (found.kind, found.accept_length, found.accept_rate, found.truncated) == (
        "spec_metrics",
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    "text", ["Decode batch size is 5, foo: 3", "we saw accept length of 3", "Prefill batching"]
)
def test_prose_is_no_batch_line(text: str) -> None:
    assert read_log_line(text).kind == "other"


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        " ",
        "[",
        "(",
        "9",
        "Decode batch ",
        "accept len: 1 ",
        "\x1b[",
        "12:34:56 ",
        "[a] ",
        "a.py:1 ",
        "[0;0",
    ],
)
def test_a_line_of_100_000_characters_is_read_in_no_time(unit: str) -> None:
    line = unit * (100_000 // len(unit))
    start = time.perf_counter()
    read_log_line(line)
    assert time.perf_counter() - start < 1


def log_file(folder: Path, *lines: str) -> Path:
    path = folder / "server.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_blank_and_comment_lines_are_skipped_and_line_numbers_kept(tmp_path: Path) -> None:
    log = read_server_log(log_file(tmp_path, "# source", "", DECODE, "hello"))
    assert [(line.line_number, line.kind) for line in log.lines] == [(3, "decode"), (4, "other")]
    assert len(lines_as_json(log.lines)) == 2


def test_an_empty_log_gives_no_lines_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"")
    log = read_server_log(path)
    assert log.lines == () and log.server is None
    assert log.damage == (f"{path} is empty",)


def test_a_cut_gzip_log_gives_the_lines_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    lines = [DECODE.replace("178.86", f"{n}.{n % 100:02}") for n in range(20_000)]
    packed = gzip.compress("\n".join(lines).encode())
    path.write_bytes(packed[: len(packed) // 2])
    log = read_server_log(path)
    assert 1_000 < len(log.lines) < 20_000
    assert [line.tok_s for line in log.lines[:500]] == [float(f"{n}.{n % 100:02}") for n in range(500)]
    assert "cut" in log.damage[0]


def test_the_server_is_known_from_its_start_up_line(tmp_path: Path) -> None:
    path = log_file(
        tmp_path, "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', tp_size=2, port=1)", DECODE
    )
    server = read_server_log(path).server
    assert server is not None and (server.engine, server.model, server.tp_size) == ("sglang", "m", 2)


def test_a_server_restarted_with_the_same_settings_is_one_server(tmp_path: Path) -> None:
    start = "server_args=ServerArgs(model_path='m', speculative_num_steps=3, random_seed={}, port=1)"
    log = read_server_log(log_file(tmp_path, start.format(1), DECODE, start.format(2), DECODE))
    assert len(log.lines) == 4


@pytest.mark.parametrize(
    ("second", "named"),
    [
        ("server_args=ServerArgs(model_path='m', speculative_num_steps=5, port=1)", "num_steps=5"),
        ("server_args=ServerArgs(model_path='other', speculative_num_steps=3, port=1)", "model=other"),
        ("server_args=ServerArgs(model_path='m', speculative_num_steps=3, port=2)", "port=2"),
        ("server_args=ServerArgs(model_path='m', speculative_algorithm=None, port=1)", "num_steps=0"),
    ],
)
def test_logs_of_two_servers_in_one_file_are_refused(tmp_path: Path, second: str, named: str) -> None:
    first = "server_args=ServerArgs(model_path='m', speculative_num_steps=3, port=1)"
    path = log_file(tmp_path, first, DECODE, second, DECODE)
    with pytest.raises(BadInputError) as error:
        read_server_log(path)
    assert "line 1" in str(error.value) and "line 3" in str(error.value) and named in str(error.value)


def test_lines_of_two_engines_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="sglang from line 1 and vllm from line 2"):
        read_server_log(log_file(tmp_path, DECODE, SPEC))


@given(st.binary(max_size=400))
def test_any_bytes_are_some_log_or_one_sentence(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        path.write_bytes(raw)
        assert len(read_server_log(path).lines) <= raw.count(b"\n") + 1
