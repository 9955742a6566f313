"""run.json."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import BadInputError
from toolkit.ingest.run_json import read_run_info, write_run_info
from toolkit.schema.run import RunInfo


def run_file(folder: Path, **keys: object) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps({"schema": "toolkit.run/1", **keys}))
    return path


def test_what_is_written_is_read_back_schema_first(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    info = RunInfo(engine="sglang", tp_size=2, num_steps=3, acceptance="simulated", captured={"how": "probe"})
    write_run_info(path, info)
    assert read_run_info(path) == info
    assert next(iter(json.loads(path.read_text()))) == "schema"


def test_unknown_keys_are_left_out_and_names_of_engines_are_lower_case(tmp_path: Path) -> None:
    assert read_run_info(run_file(tmp_path, engine="SGLang", invented=[1])) == RunInfo(engine="sglang")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"tp_size": "two"}, "tp_size: expected `int"),
        ({"tp_size": 0}, "tp_size is 0"),
        ({"num_steps": -1}, "num_steps is -1"),
        ({"acceptance": "guessed"}, "acceptance"),
        ({"schema": "toolkit.run/2"}, "newer toolkit"),
        ({"schema": "toolkit.client/1"}, "toolkit.client/1"),
    ],
)
def test_a_key_that_cannot_be_is_named(tmp_path: Path, keys: dict[str, object], said: str) -> None:
    path = run_file(tmp_path, **keys)
    with pytest.raises(BadInputError, match=said) as error:
        read_run_info(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema": "toolkit.run/1", "tp_size": NaN}', "[" * 9999]
)
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=r"run\.json"):
        read_run_info(path)


def test_a_missing_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read"):
        read_run_info(tmp_path / "run.json")


@given(
    st.dictionaries(
        st.sampled_from(["tp_size", "engine", "captured", "topk", "x"]), st.none() | st.text() | st.floats()
    )
)
def test_any_object_is_a_run_or_one_sentence(keys: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            info = read_run_info(run_file(Path(folder), **keys))
        except BadInputError as error:
            assert "run.json" in str(error)
        else:
            assert info.tp_size is None or info.tp_size >= 1
