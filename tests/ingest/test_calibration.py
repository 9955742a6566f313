"""calibration.json, alone, beside a run.json, damaged and newer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model.made_calibration import Host, calibration
from toolkit.api import inspect_paths
from toolkit.errors import BadInputError
from toolkit.ingest.folders import read_all
from toolkit.ingest.json_files import write_record
from toolkit.report.inspect_text import inspection_text
from toolkit.schema.calibration import CALIBRATION_SCHEMA
from toolkit.schema.codec import to_json

MADE = calibration(Host(), sizes=(1, 2), tp_size=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "calib"
    made.mkdir()
    (made / "calibration.json").write_text(to_json(MADE))
    (made / "run.json").write_text('{"schema": "toolkit.run/1", "gpu": "g"}')
    return made


def test_a_folder_and_a_bare_file_hold_the_calibration(folder: Path) -> None:
    for path in (folder, folder / "calibration.json", folder.parent):
        (recording,), left_out = read_all([path])
        assert recording.calibration == MADE
        assert (left_out, recording.warnings) == ((), ())


def test_its_content_tells_whatever_its_name(folder: Path) -> None:
    (folder / "calibration.json").rename(folder / "c.json")
    assert read_all([folder])[0][0].calibration == MADE


def test_inspect_says_what_it_holds(folder: Path) -> None:
    found = inspect_paths([folder])
    assert found.warnings == ()
    text = inspection_text(found)
    assert "calibration of a host: 2 x g; TP sizes 1, 2" in text
    assert "(nccl, one_shot)" in text
    assert "draft step" in text


def changed(**parts: object) -> str:
    return json.dumps({**json.loads(to_json(MADE)), **parts})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (to_json(MADE)[:200], "is not valid JSON"),
        (changed(schema="toolkit.calibration/2"), "written by a newer toolkit"),
        (changed(forwards=[{"kind": "draft_step"}]), "forwards[0]"),
        (changed(sizes="two"), "sizes: expected"),
    ],
)
def test_a_damaged_or_newer_one_is_refused_in_one_sentence(folder: Path, content: str, said: str) -> None:
    (folder / "calibration.json").write_text(content)
    with pytest.raises(BadInputError) as caught:
        read_all([folder])
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_time_that_cannot_be_names_its_key(folder: Path) -> None:
    tree = json.loads(to_json(MADE))
    tree["forwards"][1]["compute_us"]["median"] = 0
    (folder / "calibration.json").write_text(json.dumps(tree))
    with pytest.raises(BadInputError, match=r"forwards\[1\].compute_us.median is 0"):
        read_all([folder])


def test_two_in_one_folder_are_refused(folder: Path) -> None:
    write_record(folder / "other.json", MADE, CALIBRATION_SCHEMA)
    with pytest.raises(BadInputError, match="holds several calibrations"):
        read_all([folder])
