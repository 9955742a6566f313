"""A rank's trace: nanoseconds and types survive, damage is named, and only a sentence is ever raised."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.made_trace import GEMM, Cycles, eagle_cycles
from toolkit.errors import BadInputError
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.trace import RankTrace

Trace = dict[str, Any]
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def made(cycles: int = 3) -> Trace:
    writer = eagle_cycles(Cycles(), cycles)
    return writer.trace(writer.ranks[0])


MADE = made()
TEXT = json.dumps(MADE, indent=1)


def kernels(trace: Trace) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["cat"] == "kernel"]


def calls(trace: Trace) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["cat"] == "cuda_runtime"]


def read(folder: Path, content: str | bytes | Trace, name: str = "made-TP-0.trace.json") -> RankTrace:
    text = json.dumps(content) if isinstance(content, dict) else content
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_trace(path)


def columns(trace: RankTrace) -> list[list[Any]]:
    """Return everything that was kept of the events, names instead of ids."""
    parts = (trace.kernels, trace.host_calls, trace.annotations)
    found: list[list[Any]] = [[trace.names[i] for i in part.name] for part in parts]
    found += [part.start_ns.tolist() for part in parts] + [part.duration_ns.tolist() for part in parts]
    return [*found, trace.kernels.correlation.tolist(), trace.kernels.stream.tolist()]


def one_kernel(**values: Any) -> Trace:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {}}
    return {"traceEvents": [{**event, **values}]}


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("1790000000123456.789", 1_790_000_000_123_456_789),
        ("1790000000123456.7", 1_790_000_000_123_456_700),
        ("1790000000123456", 1_790_000_000_123_456_000),
        ('"1790000000123456.789"', 1_790_000_000_123_456_789),
        ("1790000000.0005", 1_790_000_000_000),  # half a ns goes to the even one
        ("0.2999999", 300),
        ("1.790000000123456789e15", 1_790_000_000_123_456_789),
        ("-5.25", -5250),
    ],
)
def test_a_time_keeps_its_nanoseconds(tmp_path: Path, written: str, ns: int) -> None:
    text = json.dumps(one_kernel()).replace('"ts": 1,', f'"ts": {written},')
    assert read(tmp_path, text).kernels.start_ns.tolist() == [ns]


def test_the_base_time_is_added_to_every_time(tmp_path: Path) -> None:
    trace = read(tmp_path, {**one_kernel(ts=2.5), "baseTimeNanoseconds": 1_790_000_000_000_000_000})
    assert trace.kernels.start_ns.tolist() == [1_790_000_000_000_002_500]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MADE, separators=(",", ":")),
        json.dumps(MADE, sort_keys=True),
        json.dumps(MADE, sort_keys=True, indent=4),
        json.dumps({"traceEvents": MADE["traceEvents"], **MADE}),
        json.dumps({key: value for key, value in MADE.items() if key != "traceEvents"} | MADE),
    ],
    ids=["compact", "sorted", "sorted and indented", "events first", "events last"],
)
def test_a_trace_that_was_dumped_again_reads_the_same(tmp_path: Path, text: str) -> None:
    original, again = read(tmp_path, TEXT), read(tmp_path, text)
    assert columns(again) == columns(original)
    assert (again.tp_rank, again.world_size, again.gpu, again.process_groups, again.damage) == (
        original.tp_rank,
        original.world_size,
        original.gpu,
        original.process_groups,
        (),
    )


def test_a_bare_array_of_events_reads_the_same_but_for_the_settings(tmp_path: Path) -> None:
    bare = json.dumps(MADE["traceEvents"])
    without_base = {key: value for key, value in MADE.items() if key != "baseTimeNanoseconds"}
    assert columns(read(tmp_path, bare)) == columns(read(tmp_path, without_base))


def test_packed_and_plain_read_the_same(tmp_path: Path) -> None:
    packed = read(tmp_path, gzip.compress(TEXT.encode()), "made-TP-0.trace.json.gz")
    assert columns(packed) == columns(read(tmp_path, TEXT))


def test_arguments_that_look_like_events_change_nothing(tmp_path: Path) -> None:
    trace = made()
    for event in kernels(trace)[::3]:
        event["args"] |= {"x": [{"id": 1, "name": "q"}, {"name": "a"}, {"args": 2}], "s": '}, {"ph": "X"'}
    assert columns(read(tmp_path, trace)) == columns(read(tmp_path, TEXT))


@QUICK
@given(share=st.floats(0, 1), packed=st.booleans())
def test_a_cut_anywhere_keeps_all_whole_events_or_is_one_sentence(
    tmp_path: Path, share: float, packed: bool
) -> None:
    whole = gzip.compress(TEXT.encode(), mtime=0) if packed else TEXT.encode()
    kept = whole[: int(len(whole) * share)]
    name = "made-TP-0.trace.json.gz" if packed else "made-TP-0.trace.json"
    try:
        found = read(tmp_path, kept, name)
    except BadInputError as error:
        assert "\n" not in str(error)
        assert share < 0.3  # so little that no event is whole
        return
    full = read(tmp_path, TEXT)
    count = len(found.kernels)
    assert found.kernels.start_ns.tolist() == full.kernels.start_ns.tolist()[:count]
    assert found.damage or len(kept) == len(whole)
    if not packed:
        assert count >= kept.count(b'"stream": 7') - 1


@QUICK
@given(
    raw=st.binary(max_size=400), head=st.sampled_from([b"", b"[", b'{"traceEvents": [', b"\x1f\x8b\x08\0"])
)
def test_random_bytes_are_one_sentence_or_a_trace(tmp_path: Path, raw: bytes, head: bytes) -> None:
    try:
        assert read(tmp_path, head + raw).event_count > 0
    except BadInputError as error:
        assert "\n" not in str(error)


@QUICK
@given(
    field=st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "correlation", "stream"]),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    ),
)
def test_a_value_of_any_type_costs_at_most_its_own_event(tmp_path: Path, field: str, value: Any) -> None:
    trace = made(1)
    event = kernels(trace)[5]
    if field in ("correlation", "stream"):
        event["args"][field] = value
    else:
        event[field] = value
    found = read(tmp_path, trace)
    assert len(found.kernels) >= len(kernels(made(1))) - 1


def changed(change: Callable[[Trace], Any]) -> Trace:
    trace = made()
    change(trace)
    return trace


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        (changed(lambda t: kernels(t)[5].update(dur=-5)), "1 events have no usable time or duration"),
        (changed(lambda t: kernels(t)[5].update(dur=1.8446744073709552e16)), "1 events have no usable time"),
        (changed(lambda t: kernels(t)[5].update(ts=1e300)), "1 events have no usable time"),
        (changed(lambda t: kernels(t)[5].update(ts="1" * 6000)), "1 events have no usable time"),
        (changed(lambda t: kernels(t)[5].update(ts=None)), "1 events have no usable time"),
        (changed(lambda t: kernels(t)[5].update(dur=float("nan"))), "1 events could not be read"),
        (changed(lambda t: kernels(t)[5].update(ts=float("inf"))), "1 events could not be read"),
        (changed(lambda t: kernels(t)[5].update(args=[1])), "1 events could not be read"),
    ],
)
def test_an_event_that_cannot_be_is_left_out_and_named(tmp_path: Path, trace: Trace, sentence: str) -> None:
    found = read(tmp_path, trace)
    assert len(found.kernels) == len(kernels(MADE)) - 1
    assert len(found.damage) == 1
    assert sentence in found.damage[0]


def test_ids_written_as_text_or_with_a_point_are_the_same_ids(tmp_path: Path) -> None:
    for kind in (str, float):
        trace = made()
        for event in trace["traceEvents"]:
            event["args"] = {key: kind(value) for key, value in event["args"].items()}
        assert columns(read(tmp_path, trace)) == columns(read(tmp_path, TEXT))


@pytest.mark.parametrize("value", ["abc", [3], 2**64, 1.5, True])
def test_an_id_that_is_none_leaves_the_kernel_in_and_is_named(tmp_path: Path, value: Any) -> None:
    found = read(tmp_path, changed(lambda t: kernels(t)[5]["args"].update(correlation=value)))
    assert len(found.kernels) == len(kernels(MADE))
    assert "1 events have no usable correlation id" in found.damage[0]


def test_ids_that_two_calls_share_are_named(tmp_path: Path) -> None:
    trace = changed(lambda t: calls(t)[1]["args"].update(correlation=calls(t)[0]["args"]["correlation"]))
    assert "1 calls share their correlation id" in read(tmp_path, trace).damage[0]


@pytest.mark.parametrize("name", [["a", 1], None, {"b": 2}, "²", "x" * 70000])
def test_a_name_of_any_kind_is_a_name(tmp_path: Path, name: Any) -> None:
    found = read(tmp_path, changed(lambda t: kernels(t)[5].update(name=name)))
    assert len(found.kernels) == len(kernels(MADE))
    assert found.damage == ()


@pytest.mark.parametrize(
    ("top", "attribute", "value"),
    [
        ({"distributedInfo": {"world_size": -3, "rank": 0}}, "world_size", None),
        ({"distributedInfo": {"world_size": 10**9, "rank": 0}}, "world_size", None),
        ({"distributedInfo": {"world_size": "two", "rank": None, "pg_config": {"a": 1}}}, "world_size", None),
        ({"distributedInfo": 7}, "process_groups", ()),
        ({"deviceProperties": ["x"]}, "gpu", None),
        ({"baseTimeNanoseconds": 10**30}, "event_count", 1),
    ],
)
def test_settings_that_cannot_be_are_not_known(
    tmp_path: Path, top: Trace, attribute: str, value: Any
) -> None:
    assert getattr(read(tmp_path, {**top, **one_kernel()}), attribute) == value


def test_deep_nesting_costs_its_event_and_no_more(tmp_path: Path) -> None:
    deep = "[" * 5000 + "]" * 5000
    found = read(tmp_path, TEXT.replace(f'"{GEMM}"', deep, 1))
    assert len(found.kernels) == len(kernels(MADE)) - 1
    assert read(tmp_path, TEXT.replace('"NVIDIA H200"', deep)).event_count == len(MADE["traceEvents"])


def test_a_cut_trace_says_how_much_of_it_was_read(tmp_path: Path) -> None:
    found = read(tmp_path, TEXT[: TEXT.index('"dur"', len(TEXT) // 2)])
    assert found.damage == (
        f"made-TP-0.trace.json: the trace ends in the middle of an event; {found.event_count} events before "
        "it were read",
    )
    between = TEXT.rindex("},\n  {")
    assert "before the end of its list of events" in read(tmp_path, TEXT[: between + 2]).damage[0]


def test_a_trace_cut_behind_its_events_says_that_settings_may_be_lost(tmp_path: Path) -> None:
    found = read(tmp_path, TEXT[: TEXT.index('"traceName"')])
    assert found.event_count == len(MADE["traceEvents"])
    assert "ends behind its events" in found.damage[0]


def test_of_a_corrupt_gzip_trace_the_events_before_the_damage_are_read(tmp_path: Path) -> None:
    noise = random.Random(1)
    for event in (trace := made())["traceEvents"]:
        event["args"]["noise"] = noise.randrange(10**12)  # else it packs too well
    packed = bytearray(gzip.compress(json.dumps(trace).encode(), mtime=0))
    packed[len(packed) // 2] ^= 0xFF
    found = read(tmp_path, bytes(packed), "made-TP-0.trace.json.gz")
    count = len(found.kernels)
    assert count > 20
    assert "the gzip stream is corrupt" in found.damage[0]
    assert np.isin(found.kernels.start_ns[:20], read(tmp_path, trace).kernels.start_ns).all()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is no profiler trace: it has no traceEvents; pass a torch profiler"),
        ('{"schemaVersion": 2}', "is no profiler trace"),
        ("[1, 2, 3]", "holds no readable event; record the trace again"),
        ('{"traceEvents": []}', "holds no readable event"),
        (b"\x1f\x8b\x08\0", "the gzip stream ends early"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(
    tmp_path: Path, content: str | bytes, sentence: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, content)
    assert sentence in str(caught.value)
    assert "made-TP-0.trace.json" in str(caught.value)


def test_a_file_that_merges_ranks_is_refused(tmp_path: Path) -> None:
    events = [dict(event, pid=f"[TP0{rank}] 7") for rank in (0, 1) for event in MADE["traceEvents"]]
    with pytest.raises(BadInputError, match=r"merges several ranks \(\[TP00\], \[TP01\]\)"):
        read(tmp_path, {"traceEvents": events})


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("1790000000.5-TP-3.trace.json.gz", 3),
        ("trace-TP-12.trace.json", 12),
        ("host_7_rank5.1234.pt.trace.json", 5),
        ("renamed.json", 1),  # then the profiler's own word counts
    ],
)
def test_the_rank_is_the_file_names_or_else_the_profilers(tmp_path: Path, name: str, rank: int) -> None:
    trace = {"distributedInfo": {"rank": 1, "world_size": 16}, **one_kernel()}
    assert read(tmp_path, trace, name).tp_rank == rank
