"""Spans files: what is written is read, what is damaged is counted."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import BadInputError
from toolkit.ingest.spans import read_spans, write_spans
from toolkit.schema.spans import RankSpans, SpanCycle

HEADER = '{"schema":"toolkit.spans/1","tp_rank":1,"clock":"host","dropped":2}'
TIMES = st.dictionaries(st.sampled_from(["draft", "verify"]), st.none() | st.floats(0, 1e6), max_size=2)
CYCLES = st.builds(
    SpanCycle,
    cycle=st.integers(0, 10**6),
    t_ns=st.integers(0, 2**60),
    batch_size=st.none() | st.integers(0, 64),
    num_steps=st.none() | st.integers(0, 8),
    graph=st.none() | st.dictionaries(st.just("draft"), st.none() | st.booleans()),
    stage_us=st.none() | TIMES,
    graph_us=st.none() | TIMES,
    draft_steps_us=st.none() | st.lists(st.floats(0, 1e6), max_size=3).map(tuple),
    collectives_us=st.none()
    | st.dictionaries(
        st.sampled_from(["draft", "verify"]), st.none() | st.lists(st.floats(0, 1e6), max_size=3).map(tuple)
    ),
    correct_drafts=st.none() | st.lists(st.integers(0, 8), max_size=3).map(tuple),
)


def spans_file(folder: Path, *lines: str, name: str = "spans-TP-3.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(lines))
    return path


@given(
    cycles=st.lists(CYCLES, max_size=5),
    name=st.sampled_from(["spans-TP-1.jsonl", "spans-TP-1.jsonl.gz"]),
    pair_us=st.none() | st.floats(0, 100),
)
def test_what_is_written_is_read_back(cycles: list[SpanCycle], name: str, pair_us: float | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        spans = RankSpans(
            source=str(path),
            tp_rank=1,
            clock="host",
            dropped=2,
            cycles=tuple(cycles),
            event_pair_us=pair_us,
        )
        write_spans(path, spans)
        assert read_spans(path) == spans
        assert [child.name for child in Path(folder).iterdir()] == [name]


def test_a_line_holds_the_keys_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "spans-TP-0.jsonl.gz"
    cycle = SpanCycle(cycle=1, t_ns=2)
    write_spans(path, RankSpans(source="", tp_rank=0, clock="c", dropped=0, cycles=(cycle,)))
    header, line = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert list(msgspec.json.decode(header)) == ["schema", "tp_rank", "clock", "dropped", "event_pair_us"]
    assert list(msgspec.json.decode(line)) == [
        *(
            "cycle",
            "t_ns",
            "batch_size",
            "padded_batch_size",
            "context_tokens",
            "num_steps",
            "num_draft_tokens",
        ),
        *("graph", "stage_us", "graph_us", "draft_steps_us", "collectives_us", "correct_drafts"),
    ]


def test_a_cut_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    spans = read_spans(spans_file(tmp_path, HEADER, '{"cycle":1,"t_ns":5}', '{"cycle":2,"t_n'))
    assert [cycle.cycle for cycle in spans.cycles] == [1]
    assert "line 3, the last, is cut" in spans.damage[0]


def test_impossible_cycles_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = [
        '{"cycle":2,"t_ns":5,"stage_us":{"draft":-1}}',
        '{"cycle":3,"t_ns":5,"batch_size":-4}',
        '{"cycle":4,"t_ns":5,"graph_us":{"draft":NaN}}',
    ]
    spans = read_spans(spans_file(tmp_path, HEADER, '{"cycle":1,"t_ns":5}', *bad, '{"cycle":9,"t_ns":5}'))
    assert [cycle.cycle for cycle in spans.cycles] == [1, 9]
    assert any("1 cycles cannot be read" in said and "line 5" in said for said in spans.damage)
    assert any("2 cycles hold a negative" in said and "line 3" in said for said in spans.damage)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON | st.dictionaries(st.sampled_from(["draft", "verify"]), JSON, max_size=2), header=JSON)
def test_whatever_the_collectives_say_only_times_that_can_be_are_read(value: object, header: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"cycle": 2, "t_ns": 5, "collectives_us": value}), '{"cycle":9,"t_ns":5}']
        said = json.dumps({"schema": "toolkit.spans/1", "tp_rank": 1, "event_pair_us": header})
        spans = read_spans(spans_file(Path(folder), said, *lines))
    assert [cycle.cycle for cycle in spans.cycles] in ([2, 9], [9])
    times = [us for c in spans.cycles for us in (c.collectives_us or {}).values() if us is not None]
    assert all(0 <= one < 2**63 for values in times for one in values)
    assert spans.event_pair_us is None or 0 <= spans.event_pair_us < 2**63
    assert (len(spans.cycles) == 2) or spans.damage


@pytest.mark.parametrize(
    "value", ['{"verify":[-1]}', '{"verify":[1e400]}', '{"verify":["1"]}', '{"verify":[null]}', "[1]", "NaN"]
)
def test_a_cycle_with_impossible_collectives_is_left_out_and_told(tmp_path: Path, value: str) -> None:
    bad = f'{{"cycle":2,"t_ns":5,"collectives_us":{value}}}'
    spans = read_spans(spans_file(tmp_path, HEADER, bad, '{"cycle":9,"t_ns":5}'))
    assert [cycle.cycle for cycle in spans.cycles] == [9]
    assert "line 2" in spans.damage[0]


def test_numbers_beyond_64_bits_are_impossible(tmp_path: Path) -> None:
    huge = "1" + "0" * 400
    bad = [f'{{"cycle":{huge},"t_ns":5}}', f'{{"cycle":1,"t_ns":{huge}}}']
    spans = read_spans(spans_file(tmp_path, HEADER, *bad, '{"cycle":9,"t_ns":5}'))
    assert [cycle.cycle for cycle in spans.cycles] == [9]
    assert "2 cycles hold a negative, non-finite or too large" in spans.damage[0]


@pytest.mark.parametrize("said", ['"1.5"', "-1", "1" + "0" * 400, "true", "null", "[1.5]"])
def test_an_event_pair_that_is_no_time_is_not_known(tmp_path: Path, said: str) -> None:
    header = HEADER.replace("}", f',"event_pair_us":{said}}}')
    spans = read_spans(spans_file(tmp_path, header, '{"cycle":1,"t_ns":5}'))
    assert (spans.tp_rank, spans.event_pair_us, len(spans.cycles)) == (1, None, 1)


def test_a_huge_list_of_collectives_is_read(tmp_path: Path) -> None:
    values = ",".join(["1.5"] * 200_000)
    line = f'{{"cycle":1,"t_ns":5,"collectives_us":{{"verify":[{values}]}}}}'
    (cycle,) = read_spans(spans_file(tmp_path, HEADER, line)).cycles
    assert len((cycle.collectives_us or {})["verify"] or ()) == 200_000


def test_a_rank_not_in_the_header_is_that_of_the_name(tmp_path: Path) -> None:
    header = '{"schema":"toolkit.spans/1","clock":"host"}'
    assert read_spans(spans_file(tmp_path, header, '{"cycle":1,"t_ns":5}')).tp_rank == 3
    assert read_spans(spans_file(tmp_path, HEADER, '{"cycle":1,"t_ns":5}')).tp_rank == 1


def test_a_file_without_its_header_is_read_and_told(tmp_path: Path) -> None:
    spans = read_spans(spans_file(tmp_path, '{"cycle":1,"t_ns":5}', '{"cycle":2,"t_ns":6}'))
    assert (spans.tp_rank, len(spans.cycles)) == (3, 2)
    assert "no header" in spans.damage[0]


def test_unknown_keys_are_ignored(tmp_path: Path) -> None:
    spans = read_spans(spans_file(tmp_path, HEADER, '{"cycle":1,"t_ns":5,"new":{"a":[1]}}'))
    assert spans.cycles == (SpanCycle(cycle=1, t_ns=5),) and spans.damage == ()


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ('{"schema":"toolkit.spans/2","tp_rank":0}', "newer toolkit"),
        ('{"schema":"other/1"}', "other/1"),
        ('{"n":"draft","gpu_ms":3.1}', "no toolkit schema"),
        ("[1, 2]", "not a JSON object"),
        ("hello", "no cycles"),
    ],
)
def test_another_kind_of_file_is_refused_in_a_sentence(tmp_path: Path, first: str, said: str) -> None:
    path = spans_file(tmp_path, first, '{"n":"verify"}')
    with pytest.raises(BadInputError, match=said) as error:
        read_spans(path)
    assert str(path) in str(error.value)


def test_a_cut_gzip_gives_the_cycles_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "spans-TP-0.jsonl.gz"
    cycles = tuple(SpanCycle(cycle=n, t_ns=n * 7919 % 1000003) for n in range(50_000))
    write_spans(path, RankSpans(source="", tp_rank=0, clock="host", dropped=0, cycles=cycles))
    path.write_bytes(path.read_bytes()[:-2000])
    spans = read_spans(path)
    assert spans.cycles == cycles[: len(spans.cycles)] and 40_000 < len(spans.cycles) < 50_000
    assert "cut" in spans.damage[0]


def test_an_empty_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "spans-TP-2.jsonl"
    path.write_bytes(b"")
    spans = read_spans(path)
    assert (spans.tp_rank, spans.cycles, spans.damage) == (2, (), (f"{path} is empty",))
