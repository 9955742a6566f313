"""Tables of benchmark numbers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import BadInputError
from toolkit.ingest.measurements import is_measurement_table, read_measurements
from toolkit.schema.measurement import Measurement

HEADER = (
    "sweep,engine,hardware,target,draft,num_steps,topk,num_draft_tokens,batch_size,"
    "accept_length,tok_s,cycle_ms,notes"
)
GOOD = "S1,SGLang,H200,Llama,EAGLE3,3,1,4,8,2.5,1000,20.0,a note"


def table(folder: Path, *lines: str, end: str = "\n", encoding: str = "utf-8") -> Path:
    path = folder / "measurements.csv"
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def test_a_row_is_read_in_our_terms(tmp_path: Path) -> None:
    rows, damage = read_measurements(table(tmp_path, HEADER, GOOD))
    assert damage == ()
    assert rows == (
        Measurement(
            row=2,
            sweep="S1",
            engine="sglang",
            gpu="H200",
            model="Llama",
            draft_model="EAGLE3",
            num_steps=3,
            topk=1,
            num_draft_tokens=4,
            batch_size=8,
            accept_length=2.5,
            tok_s=1000.0,
            cycle_ms=20.0,
            notes="a note",
        ),
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_marks_line_ends_and_delimiters_make_no_difference(
    tmp_path: Path, encoding: str, end: str, delimiter: str
) -> None:
    lines = [line.replace(",", delimiter) for line in (HEADER, GOOD)]
    rows, damage = read_measurements(table(tmp_path, *lines, end=end, encoding=encoding))
    assert damage == () and rows[0].cycle_ms == 20.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (",20.0,", ",NaN,", "cycle_ms holds 'NaN'"),
        (",20.0,", ",-1,", "cycle_ms holds -1"),
        (",20.0,", ",fast,", "cycle_ms holds 'fast'"),
        (",20.0,", ",inf,", "cycle_ms holds 'inf'"),
        (",1000,", ",0,", "tok_s holds 0"),
        (",3,1,4,", ",3.5,1,4,", "num_steps holds 3.5"),
        (",3,1,4,", ",1e20,1,4,", "num_steps holds 1e20, which is above 10000000"),
        (",20.0,", ",1e20,", "cycle_ms holds 1e20, which is above 1e+09"),
        (",2.5,", ",0.5,", "accept_length holds 0.5"),
        (",2.5,", ",4.5,", "accept_length holds 4.5, more than the 4 tokens"),
        (",a note", "", "12 cells where the header has 13"),
    ],
)
def test_a_row_with_a_bad_cell_is_left_out_and_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    rows, damage = read_measurements(table(tmp_path, HEADER, GOOD, GOOD.replace(old, new), GOOD))
    assert [row.row for row in rows] == [2, 4]
    assert len(damage) == 1 and "line 3" in damage[0] and said in damage[0]


def test_scenarios_need_no_results_and_no_other_columns(tmp_path: Path) -> None:
    rows, damage = read_measurements(table(tmp_path, "num_steps,batch_size", "2,1", "", "3,4"))
    assert damage == ()
    assert [(row.row, row.num_steps, row.batch_size, row.tok_s) for row in rows] == [
        (2, 2, 1, None),
        (4, 3, 4, None),
    ]


def test_a_quoted_note_over_two_lines_keeps_the_line_numbers(tmp_path: Path) -> None:
    rows, _ = read_measurements(table(tmp_path, HEADER, GOOD.replace("a note", '"a, b\nc"'), GOOD))
    assert [(row.row, row.notes) for row in rows] == [(2, "a, b\nc"), (4, "a note")]


def test_another_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"line 1 names none of the columns num_steps, num_draft_tokens"):
        read_measurements(table(tmp_path, "name,age", "x,3"))
    with pytest.raises(BadInputError, match=r"line 1 names only tok_s of the columns"):
        read_measurements(table(tmp_path, "name,tok_s", "x,3"))
    assert not is_measurement_table("name,age") and is_measurement_table(HEADER)
    assert is_measurement_table(["num_steps", "batch_size"])


def test_an_empty_table_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "measurements.csv"
    path.write_bytes(b"")
    assert read_measurements(path) == ((), (f"{path} is empty",))


@given(st.lists(st.lists(st.text(max_size=6) | st.floats().map(str), max_size=14), max_size=4))
def test_any_rows_are_rows_or_sentences(cells: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = [",".join(row).replace("\ud800", "") for row in cells]
        path = Path(folder) / "measurements.csv"
        path.write_bytes("\n".join([HEADER, *lines]).encode("utf-8", "replace"))
        rows, _ = read_measurements(path)
        assert all(row.cycle_ms is None or row.cycle_ms > 0 for row in rows)
