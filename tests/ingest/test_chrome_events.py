"""Events of a trace come one by one, whatever the chunks, the order of keys and the damage between them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.ingest.traces import chrome_events
from toolkit.ingest.traces.chrome_events import Event, StreamResult, stream_events

EVENTS: list[dict[str, Any]] = [
    {
        "ph": "X",
        "cat": "kernel",
        "name": f"kernel {number} }}, {{",
        "pid": 0,
        "tid": 7,
        "ts": 1000.5 + number,
        "dur": 1.25,
        "args": {
            "correlation": number,
            "list": [{"id": 1, "name": "inner"}, {"name": "a", "args": 2}, {"ts": 3}],
            "text": '}, {"ph": "X"}, ]',
        },
    }
    for number in range(12)
]
TOP = {
    "schemaVersion": 1,
    "distributedInfo": {"rank": 1, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]},
}
TAIL = {"deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}], "traceName": "x]}"}
FORMS = {
    "indented": json.dumps({**TOP, "traceEvents": EVENTS, **TAIL}, indent=1),
    "compact": json.dumps({**TOP, "traceEvents": EVENTS, **TAIL}, separators=(",", ":")),
    "sorted": json.dumps({**TOP, "traceEvents": EVENTS, **TAIL}, sort_keys=True),
    "events last": json.dumps({**TOP, **TAIL, "traceEvents": EVENTS}),
    "events first": json.dumps({"traceEvents": EVENTS, **TOP, **TAIL}, indent=2),
    "byte order mark": "\ufeff" + json.dumps({**TOP, **TAIL, "traceEvents": EVENTS}),
}


def streamed(text: str | bytes, size: int | None = None) -> tuple[list[Any], StreamResult]:
    """Return what identifies each event that was read from chunks of `size` bytes, and the result."""
    raw = text.encode() if isinstance(text, str) else text
    chunks: Iterable[bytes] = [raw] if size is None else (raw[i : i + size] for i in range(0, len(raw), size))
    found: list[Any] = []

    def keep(events: list[Event]) -> None:
        found.extend(
            (json.loads(bytes(event.name)), bytes(event.ts), event.args and event.args.correlation)
            for event in events
        )

    return found, stream_events(chunks, keep)


def expected(events: Iterable[dict[str, Any]] = EVENTS) -> list[Any]:
    return [(event["name"], str(event["ts"]).encode(), event["args"]["correlation"]) for event in events]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_trace_gives_the_same_events_and_settings(form: str) -> None:
    found, result = streamed(FORMS[form])
    assert found == expected()
    assert result.top_level == {**TOP, **TAIL}
    assert (result.complete, result.lost_events, result.cut_event, result.cut_end) == (True, 0, False, False)


def test_a_bare_array_is_a_trace_without_settings() -> None:
    found, result = streamed(json.dumps(EVENTS))
    assert (found, result.top_level, result.complete) == (expected(), {}, True)


@settings(max_examples=60, deadline=None)
@given(form=st.sampled_from(sorted(FORMS)), size=st.integers(1, 700))
def test_the_size_of_chunks_does_not_change_what_is_read(form: str, size: int) -> None:
    found, result = streamed(FORMS[form], size)
    assert found == expected()
    assert result.top_level == {**TOP, **TAIL}
    assert result.lost_events == 0


@settings(max_examples=60, deadline=None)
@given(form=st.sampled_from(sorted(FORMS)), share=st.floats(0.2, 1), size=st.integers(20, 700))
def test_a_cut_loses_no_event_that_was_whole_before_it(form: str, share: float, size: int) -> None:
    text = FORMS[form]
    keep = int(len(text) * share)
    whole = EVENTS[: sum(end <= keep for end in ends_of_events(text))]
    found, result = streamed(text[:keep], size)
    assert found[: len(whole)] == expected(whole)
    assert result.lost_events == 0


def ends_of_events(text: str) -> list[int]:
    """Return where each event ends in the text of a trace."""
    at = text.index("[", text.index('"traceEvents"'))
    ends = []
    for _ in EVENTS:
        ends.append(json.JSONDecoder().raw_decode(text, text.index("{", at))[1])
        at = ends[-1]
    return ends


@settings(max_examples=150, deadline=None)
@given(raw=st.binary(max_size=300), size=st.integers(1, 50))
def test_no_bytes_raise_an_error(raw: bytes, size: int) -> None:
    for head in (b"", b"[", b'{"traceEvents": [', b'[{"ph": "X"}, ', b'{"traceEvents": [{"ph": "X"}], "a": '):
        found, result = streamed(head + raw, size)
        assert len(found) == result.events


@pytest.mark.parametrize("form", ["indented", "sorted", "compact"])
@pytest.mark.parametrize("broken", ['"dur" 1.25', '"dur": NaN', '"dur": 1.25]', '"dur": "\\q"'])
@pytest.mark.parametrize("size", [None, 300])
def test_one_broken_event_costs_that_event_alone(form: str, broken: str, size: int | None) -> None:
    text = FORMS[form]
    space = "" if form == "compact" else " "
    first = text.index(f'"dur":{space}1.25')
    text = text[:first] + broken + text[first + len(f'"dur":{space}1.25') :]
    found, result = streamed(text, size)
    assert found == expected(EVENTS[1:])
    assert (result.lost_events, result.complete) == (1, True)


def test_control_characters_and_broken_utf8_in_a_name_cost_nothing() -> None:
    text = (
        json.dumps(EVENTS).replace("kernel 3", "kernel\x01 3").encode().replace(b"kernel 5", b"kernel\xff5")
    )
    found, result = streamed(text)
    assert len(found) == len(EVENTS)
    assert result.lost_events == 0
    assert found[5][0].startswith("kernel\ufffd5")


def test_events_broken_one_after_the_other_are_all_counted() -> None:
    text = json.dumps(EVENTS).replace('"dur": 1.25', '"dur" 1.25', 4)
    assert streamed(text)[1].lost_events == 4


def test_an_event_that_never_ends_does_not_hold_back_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_events, "_LONGEST_EVENT_BYTES", 500)
    text = json.dumps(EVENTS).replace('"kernel 2 }, {"', '"kernel 2 }, {')
    found, result = streamed(text, 200)
    assert [name for name, _, _ in found] == [event["name"] for event in EVENTS if event is not EVENTS[2]]
    assert result.lost_events == 1


def test_values_that_are_no_events_are_lost_and_counted() -> None:
    found, result = streamed('[{"ph": "X", "name": "a", "ts": 1}, 7, "x", {"ph": "X", "name": "b", "ts": 2}]')
    assert [name for name, _, _ in found] == ["a", "b"]
    assert result.lost_events == 1


def test_keys_before_a_cut_behind_the_events_are_kept() -> None:
    text = FORMS["events first"]
    _, result = streamed(text[: text.index('"traceName"')])
    assert result.top_level == {**TOP, "deviceProperties": TAIL["deviceProperties"]}
    assert (result.complete, result.cut_end) == (True, True)


def test_what_has_no_events_is_no_trace() -> None:
    assert not streamed('{"a": [1, 2]}')[1].found_array
    assert not streamed("")[1].found_array
