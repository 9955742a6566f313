"""cost-model.json: written whole, checked when read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.made_runs import founding_case
from toolkit.errors import BadInputError, ToolkitError, UsageError
from toolkit.ingest.model_file import read_cost_model, write_cost_model
from toolkit.model.fit import fit_cost_model
from toolkit.schema.codec import cost_model_from_json, to_json

MODEL = fit_cost_model(founding_case(), draws=20)


def test_a_model_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "build" / "m.json"
    write_cost_model(path, MODEL, overwrite=False)
    assert read_cost_model(path) == MODEL
    assert [entry.name for entry in path.parent.iterdir()] == ["m.json"]


def test_an_existing_model_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text("mine")
    with pytest.raises(UsageError, match="--overwrite"):
        write_cost_model(path, MODEL, overwrite=False)
    assert path.read_text() == "mine"
    write_cost_model(path, MODEL, overwrite=True)
    assert read_cost_model(path) == MODEL


def test_a_newer_model_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadInputError, match="newer"):
        cost_model_from_json(b'{"schema": "toolkit.cost-model/2"}', "m.json")


def test_a_model_of_version_0_is_upgraded() -> None:
    tree = json.loads(to_json(MODEL))
    tree["schema"] = "toolkit.cost-model/0"
    for group in tree["groups"]:
        del group["draws"]
    upgraded = cost_model_from_json(json.dumps(tree).encode(), "m.json")
    assert upgraded.schema == "toolkit.cost-model/1"
    assert upgraded.groups[0].draws == (upgraded.groups[0].solution,)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"3", b'{"schema": 1}', b'{"schema": "toolkit.fit/1"}', b"\xff"]
)
def test_what_is_no_model_is_refused(text: bytes) -> None:
    with pytest.raises(BadInputError, match=r"m\.json"):
        cost_model_from_json(text, "m.json")


@given(cut=st.integers(0, len(to_json(MODEL)) - 1))
def test_a_model_cut_anywhere_is_refused_not_misread(cut: int) -> None:
    with pytest.raises(ToolkitError):
        cost_model_from_json(to_json(MODEL).encode()[:cut], "m.json")


def test_unknown_keys_of_a_later_minor_writer_are_passed_over() -> None:
    tree = json.loads(to_json(MODEL)) | {"later": 1}
    assert cost_model_from_json(json.dumps(tree).encode(), "m.json") == MODEL


@pytest.mark.parametrize(
    "changed",
    [
        {"solution": (1.0,)},
        {"draws": ()},
        {"draws": ((1.0,),)},
        {"norms": (0.0,) * len(MODEL.groups[0].columns)},
    ],
)
def test_arrays_that_do_not_fit_together_are_damage(tmp_path: Path, changed: dict[str, object]) -> None:
    damaged = replace(MODEL, groups=(replace(MODEL.groups[0], **changed),))  # type: ignore[arg-type]
    path = tmp_path / "cost-model.json"
    path.write_text(to_json(damaged), encoding="utf-8")
    with pytest.raises(BadInputError, match="do not fit together"):
        read_cost_model(path)
