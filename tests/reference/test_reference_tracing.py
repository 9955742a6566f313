"""The engine's own profiler: what goes wrong with its file is no reason to end a rank."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")


def test_a_folder_that_is_taken_away_costs_the_trace_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from toolkit.reference.tracing import Tracer

    tracer, folder = Tracer(0), tmp_path / "traces"
    tracer.start(folder, "t", 1, ["CPU"], with_stack=False, record_shapes=False)
    shutil.rmtree(folder)
    assert tracer.stop() is None and not tracer.active
    assert "no trace was written" in capsys.readouterr().err
    tracer.start(folder, "t", 1, ["CPU"], with_stack=False, record_shapes=False)
    tracer.cycle_done()
    assert [path.name for path in folder.iterdir()] == ["t-TP-0.trace.json.gz"]
