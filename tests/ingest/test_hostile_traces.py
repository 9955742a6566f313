"""Files made to do harm: nothing is a traceback, nothing is lost in silence, memory and time stay bounded."""

from __future__ import annotations

import gzip
import json
import tempfile
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.made_trace import Cycles, eagle_cycles
from toolkit.api import inspect_paths
from toolkit.errors import ToolkitError
from toolkit.ingest import text_files
from toolkit.ingest.byte_chunks import read_chunks
from toolkit.ingest.traces import chrome_events
from toolkit.ingest.traces.chrome import read_trace
from toolkit.ingest.traces.chrome_events import Event, StreamResult, stream_events

MB = 1 << 20
MADE = [eagle_cycles(Cycles(ranks=2), 4).trace(rank) for rank in eagle_cycles(Cycles(ranks=2), 4).ranks]
EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 1, "args": {}}
TEXT = json.dumps(EVENT)


def streamed(chunks: Iterable[bytes]) -> tuple[int, StreamResult, int]:
    """Return how many events were read, what else was found, and the most memory that took."""
    count = 0

    def keep(events: list[Event]) -> None:
        nonlocal count
        count += len(events)

    tracemalloc.start()
    try:
        result = stream_events(chunks, keep)
        return count, result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def repeated(before: str, filling: bytes, megabytes: int, after: str) -> Iterator[bytes]:
    yield before.encode()
    for _ in range(megabytes):
        yield filling * (MB // len(filling))
    yield after.encode()


@pytest.mark.parametrize("filling", [b"x", b'{\\"ph\\": ', b"[1, 2, "])
def test_one_endless_event_costs_itself_and_no_memory(filling: bytes) -> None:
    before = f'{{"traceEvents": [{TEXT}, {{"ph": "X", "name": "'
    chunks = repeated(before, filling, 48, f'", "ts": 1}}, {TEXT}, {TEXT}], "traceName": "t"}}')
    count, result, most = streamed(chunks)
    assert (count, result.lost_events, result.complete, result.cut_event) == (3, 1, True, False)
    assert most < 24 * MB


def test_an_event_of_a_million_arguments_costs_itself_and_no_memory() -> None:
    chunks = repeated(f'[{TEXT}, {{"ph": "X", "args": {{"a": 1', b', "b": 2', 40, f"}}}}, {TEXT}]")
    count, result, most = streamed(chunks)
    assert (count, result.lost_events) == (2, 1)
    assert most < 24 * MB


def test_endless_settings_behind_the_events_are_left_out_and_said() -> None:
    chunks = repeated(f'{{"traceEvents": [{TEXT}], "note": "', b"x", 80, '"}')
    count, result, most = streamed(chunks)
    assert (count, result.complete, result.cut_end) == (1, True, True)
    assert most < 70 * MB


def test_blanks_between_events_are_passed_over_without_a_look_at_each() -> None:
    chunks = repeated(f"[{TEXT}", b" ", 40, f", {TEXT}]")
    count, result, most = streamed(chunks)
    assert (count, result.lost_events, result.complete) == (2, 0, True)
    assert most < 24 * MB


def test_objects_that_open_and_never_close_are_tried_so_often_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0
    event_at = chrome_events._event_at

    def counted(text: str, at: int) -> Any:
        nonlocal tries
        tries += 1
        return event_at(text, at)

    monkeypatch.setattr(chrome_events, "_event_at", counted)
    monkeypatch.setattr(chrome_events, "_MOST_TRIES", 500)
    count, result, _ = streamed(repeated(f"[{TEXT}, ", b'{"args":', 3, "1"))
    assert (count, result.cut_event) == (1, True)
    assert tries < 600


def test_settings_before_the_events_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "deep-TP-0.trace.json"
    path.write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + ", " + json.dumps(MADE[0])[1:])
    assert any("not all settings before its events" in note for note in read_trace(path).damage)
    path.write_text(json.dumps(MADE[0]))
    assert not read_trace(path).damage


def test_a_few_bytes_that_hold_gigabytes_come_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(b"\0" * MB)
    damage: list[str] = []
    sizes = [len(piece) for piece in read_chunks(path, damage)]
    assert sum(sizes) == 300 * MB
    assert max(sizes) <= 9 * MB
    assert not damage


@pytest.mark.parametrize("size", [8 * MB - 1, 8 * MB, 8 * MB + 1, 16 * MB])
def test_what_is_inflated_ends_with_its_last_byte_at_any_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "packed.gz"
    path.write_bytes(gzip.compress(b"a" * size + b"z", compresslevel=1))
    damage: list[str] = []
    content = b"".join(read_chunks(path, damage))
    assert (len(content), content[-1:], damage) == (size + 1, b"z", [])


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        ("", "7", "x", "\x00\x1b[31m", "\ud800", 2**63, -(2**70), 1e300, 18446744073709551.0, -1.5)
    ),
    st.integers(-5, 5),
    st.floats(),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(("ph", "a")), st.integers(0, 3), max_size=1),
)
FIELDS = ("ts", "dur", "name", "cat", "ph", "pid", "tid", "args", "correlation", "stream", "graph node id")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rank=st.integers(0, 1),
    every=st.sampled_from((1, 2, 7, 50)),
    field=st.sampled_from(FIELDS),
    value=VALUES,
    category=st.sampled_from(("kernel", "cuda_runtime", "user_annotation")),
)
def test_a_field_of_any_value_in_any_share_of_events_ends_in_a_report_or_one_sentence(
    rank: int, every: int, field: str, value: Any, category: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, trace in enumerate(MADE):
            changed = json.loads(json.dumps(trace))
            own = [event for event in changed["traceEvents"] if event["cat"] == category]
            for event in own[::every] if number == rank else ():
                inner = field in ("correlation", "stream", "graph node id")
                (event["args"] if inner else event)[field] = value
            Path(folder, f"made-TP-{number}.trace.json").write_text(json.dumps(changed))
        try:
            (run,) = inspect_paths([Path(folder)]).runs
        except ToolkitError as error:
            assert str(error).count("\n") == 0
        else:
            assert {check.check for check in run.health} >= {"kernels captured", "files whole"}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    at=st.floats(0, 1),
    length=st.sampled_from((1, 3, 40, 2000)),
    filling=st.sampled_from(
        (b"", b"\x00", b"\xff\xfe", b'"', b"}", b"]", b"{", b"\\", b', {"ph"', b"[" * 3000)
    ),
)
def test_a_hole_anywhere_in_a_trace_ends_in_a_report_or_one_sentence(
    at: float, length: int, filling: bytes
) -> None:
    raw = json.dumps(MADE[0]).encode()
    place = int(at * len(raw))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made-TP-0.trace.json")
        path.write_bytes(raw[:place] + filling + raw[place + length :])
        try:
            trace = read_trace(path)
            inspect_paths([path])
        except ToolkitError as error:
            assert str(error).count("\n") == 0
            return
    whole = sum(event["cat"] == "kernel" for event in MADE[0]["traceEvents"])
    lost = whole - len(trace.kernels)
    assert lost <= 1 + length // 100 or trace.damage, f"{lost} of {whole} kernels lost in silence"


def test_a_text_of_gigabytes_is_read_as_far_as_memory_is_bounded_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MOST_BYTES", 1000)
    path = tmp_path / "server.log"
    path.write_text("a line\n" * 500)
    lines, damage = text_files.read_text_lines(path)
    assert lines == ["a line"] * 142
    assert "longer than 0 MB, the rest was left out" in damage[0]
    (tmp_path / "run.json").write_text('{"schema": "toolkit.run/1", "model": "' + "x" * 2000 + '"}')
    with pytest.raises(ToolkitError, match="the rest was left out"):
        inspect_paths([tmp_path])
