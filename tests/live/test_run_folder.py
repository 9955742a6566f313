"""Where a captured run goes when its place cannot be written: it took minutes of a server and is kept."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import BadInputError
from toolkit.live import run_folder


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def write_files(folder: Path, *_: Any) -> None:
        (folder / "run.json").write_text("new", encoding="utf-8")

    monkeypatch.setattr(run_folder, "run_info", lambda *_: None)
    monkeypatch.setattr(run_folder, "run_name", lambda *_, **__: "a-run")
    monkeypatch.setattr(run_folder, "_write_files", write_files)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def _write(out: Path, *, overwrite: bool = False) -> Path:
    nothing: Any = SimpleNamespace(load=None)
    return run_folder.write_run(out, nothing, nothing, {}, show_context=False, overwrite=overwrite)


def test_a_run_that_its_place_does_not_take_is_kept_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file by now")
    with pytest.raises(BadInputError, match="name another place with -o") as caught:
        _write(tmp_path / "out")
    kept = re.search(r"kept in (\S+)\)$", str(caught.value))
    assert kept and (Path(kept[1]) / "run.json").read_text() == "new"


def test_a_run_that_no_place_takes_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, *_: Any) -> None:
        (folder / "run.json").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "_write_files", full)
    with pytest.raises(BadInputError, match=r"\(No space left on device\); name another"):
        _write(tmp_path / "out")
    assert not list((tmp_path / "out").iterdir()) and not list((tmp_path / "temporary").iterdir())


def test_a_link_to_a_run_is_replaced_and_the_run_is_kept(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text("old")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a-run").symlink_to(tmp_path / "other")
    folder = _write(tmp_path / "out", overwrite=True)
    assert (folder / "run.json").read_text() == "new" and not folder.is_symlink()
    assert (tmp_path / "other" / "run.json").read_text() == "old"


def test_a_name_that_is_too_long_is_refused_before_any_load(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no run can be written to"):
        run_folder.require_place(tmp_path / ("a" * 300))
