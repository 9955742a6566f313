"""Figures as files: both forms, kept unless told otherwise, with names that are safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.figures.made_figures import EVERY, cycle_cell, forecast, host, three_step_counts
from tests.model.made_runs import inspection, run
from toolkit.errors import UsageError
from toolkit.figures.drawings import (
    CALIBRATION_NAMES,
    MOST_CYCLES,
    Drawing,
    calibration_drawings,
    forecast_drawings,
    inspection_drawings,
    left_out_cycles,
)
from toolkit.figures.saving import save_drawings

DRAWN = [Drawing("cycle", EVERY["cycle"])]


def never() -> object:
    raise AssertionError("drawn although a file exists")


def test_every_figure_is_written_as_png_and_svg_in_a_new_folder(tmp_path: Path) -> None:
    written = save_drawings(tmp_path / "figures", DRAWN)
    assert [path.name for path in written] == ["cycle.png", "cycle.svg"]
    assert all(path.stat().st_size > 1000 for path in written)


def test_an_existing_file_is_kept_and_nothing_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "cycle.svg").write_text("mine")
    with pytest.raises(UsageError, match=r"cycle\.svg exists and is kept; give --overwrite"):
        save_drawings(tmp_path, [Drawing("cycle", never)])  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["cycle.svg"]


def test_an_existing_file_is_replaced_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "cycle.svg").write_text("mine")
    save_drawings(tmp_path, DRAWN, overwrite=True)
    assert "mine" not in (tmp_path / "cycle.svg").read_text()


def test_runs_of_one_name_get_files_of_their_own() -> None:
    runs = inspection(run("a/b", cycle_cell()), run("a/b", cycle_cell()))
    assert [one.name for one in inspection_drawings(runs)] == ["cycle-a_b", "cycle-a_b-2"]


def test_many_runs_have_the_first_cycles_drawn_and_the_rest_counted() -> None:
    runs = inspection(*(run(f"r{number}", cycle_cell()) for number in range(MOST_CYCLES + 3)))
    assert sum(one.name.startswith("cycle-") for one in inspection_drawings(runs)) == MOST_CYCLES
    assert left_out_cycles(runs) == 3


def test_an_inspection_has_cycles_a_comparison_and_acceptance() -> None:
    names = [one.name for one in inspection_drawings(three_step_counts())]
    assert names == [
        "cycle-k0", "cycle-k1", "cycle-k3", "against-plain-sglang-tp1-b1", "acceptance-sglang-tp1"
    ]  # fmt: skip


def test_a_forecast_has_no_batch_map_of_one_batch() -> None:
    assert [one.name for one in forecast_drawings(forecast(), [forecast()])] == [
        "throughput",
        "accept-length-map",
    ]


def test_a_calibration_s_figures_are_known_before_it_is_measured() -> None:
    assert tuple(one.name for one in calibration_drawings(host())) == CALIBRATION_NAMES
