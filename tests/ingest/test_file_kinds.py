"""A file's kind is told by what is in it; names are only hints."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from toolkit.errors import BadInputError
from toolkit.ingest.file_kinds import file_kind, require_readable

DECODE = (
    "[2026-02-26 14:47:17 TP0] Decode batch, #running-req: 1, #token: 202, token usage: 0.00, "
    "accept len: 2.17, accept rate: 0.36, cuda graph: True, gen throughput (token/s): 79.28, #queue-req: 0\n"
)
VLLM = (
    "INFO 06-06 14:20:34 [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 267.6 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 9.5%, Prefix cache hit rate: 0.5%\n"
)
EVENT = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}'


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a", f'{{"traceEvents": [{EVENT}]}}', "trace"),
        ("a.json", f"[{EVENT}]", "trace"),
        ("a.json", f"[\n {EVENT}\n]", "trace"),
        ("a.json", '{"args": {"x": 1}, "cat": "kernel", "traceEvents": []}', "trace"),
        ("a.json", '{"schema": "toolkit.run/1"}', "run"),
        ("a", '{"schema": "toolkit.spans/1", "tp_rank": 0}\n', "spans"),
        ("a", '{"schema": "toolkit.client/1"}', "client"),
        ("a", '{"schema": "toolkit.cost-model/1"}', "model"),
        ("a", '{"schema":"toolkit.inspect/1","runs":[]}', "result"),
        ("a", '{"schema": "toolkit.forecast/1"}', "result"),
        ("a.json", '{"a": 1}', "unknown"),
        ("a.json", '{"ph": 7.1, "soil": "loam"}', "unknown"),
        ("a.json", "[1, 2, 3]", "unknown"),
        ("a.json", "{", "unknown"),
        ("a.csv", "num_steps,batch_size,tok_s\n1,1,1\n", "table"),
        ("a.csv", "name,colour\na,b\n", "unknown"),
        ("a.csv", 'a\rb\rc,"\r\n', "unknown"),
        ("a.csv", '"' * 200_000, "unknown"),
        ("a.txt", "x" * 300_000, "unknown"),
        ("server.log", DECODE, "log"),
        ("a", DECODE, "log"),
        ("a", VLLM, "log"),
        ("a.log", "a door opened\n", "unknown"),
        ("a.log", "\0" * 400_000 + DECODE, "log"),  # truncated while the server wrote it
        ("gpu.jsonl", "", "gpu"),
        ("a", "", "empty"),
        ("a", " \n\n", "empty"),
    ],
)
def test_a_kind_is_told_by_content(tmp_path: Path, name: str, content: str, kind: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    assert file_kind(path) == kind
    path.write_bytes(gzip.compress(content.encode()))
    assert file_kind(path) == kind


def test_binary_files_are_of_no_kind(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(bytes(range(256)) * 100)
    assert file_kind(path) == "unknown"


def test_a_log_in_utf16_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(DECODE.encode("utf-16"))
    assert file_kind(path) == "log"


def test_a_gzip_file_of_which_nothing_can_be_read_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"x" * 10)[:5])
    assert file_kind(path) == "damaged"
    path.write_bytes(gzip.compress(b""))
    assert file_kind(path) == "empty"


@pytest.mark.parametrize("name", ["nothing", "n" * 5000, "a\0b"])
def test_a_path_that_cannot_be_read_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="give a run folder, a trace, a log or"):
        require_readable(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInputError, match="is neither a file nor a folder"):
        require_readable(tmp_path / "pipe")
