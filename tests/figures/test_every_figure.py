"""What holds of every figure: it says what it shows, with units, and is the same file each time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib
import pytest
from matplotlib._pylab_helpers import Gcf

from tests.figures.made_figures import EVERY
from toolkit import figures
from toolkit.figures.cycle_parts import ORDER
from toolkit.figures.saving import figure_bytes
from toolkit.figures.style import PHASES, SERIES, text_on

UNITS = ("ms", "us", "%", "tokens", "steps", "requests", "position", "share", "GPUs", "message")
every = pytest.mark.parametrize("name", EVERY)


@every
def test_a_figure_has_a_title_and_units_on_its_axes(name: str) -> None:
    figure = EVERY[name]()
    assert figure.get_suptitle()
    for axes in figure.axes:
        labels = [axes.get_xlabel(), axes.get_ylabel()]
        assert any(unit in label for label in labels for unit in UNITS), labels


@every
def test_a_figure_is_the_same_file_each_time_whatever_the_reader_has_set(name: str) -> None:
    first = figure_bytes(EVERY[name](), "svg")  # a warning of the layout would be an error here
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "x"}):
        assert figure_bytes(EVERY[name](), "svg") == first
    assert not Gcf.figs  # what pyplot would keep, and warn about after twenty


def test_a_figure_leaves_the_reader_s_settings_as_they_were() -> None:
    with matplotlib.rc_context({"font.size": 30}):
        EVERY["fitted"]()
        assert matplotlib.rcParams["font.size"] == 30


def test_a_figure_is_the_same_in_another_process(repository: Path) -> None:
    program = (
        "import hashlib; from tests.figures.made_figures import EVERY; "
        "from toolkit.figures.saving import figure_bytes as drawn; "
        "print(*(hashlib.sha256(drawn(EVERY['throughput'](), end)).hexdigest() for end in ('png', 'svg')))"
    )
    there = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository), "PYTHONHASHSEED": "1"},
        check=True,
    ).stdout.split()
    here = [figure_bytes(EVERY["throughput"](), ending) for ending in ("png", "svg")]
    assert there == [hashlib.sha256(drawn).hexdigest() for drawn in here]


def luminance(colour: str) -> float:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_neighbours_in_a_bar_differ_in_grey() -> None:
    bar = [phase for phase in ORDER if phase not in ("decode", "rest")]
    greys = [luminance(PHASES[phase]) for phase in bar]
    assert all(abs(one - after) > 0.04 for one, after in pairwise(greys))


def test_colours_are_those_of_okabe_and_ito() -> None:
    palette = {"#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"}
    assert set(SERIES) <= palette
    assert set(PHASES.values()) - palette == {"#D9D9D9"}  # grey: no phase
    assert (text_on("#F0E442"), text_on("#0072B2")) == ("#222222", "white")


def test_every_figure_is_offered_by_name_and_no_other() -> None:
    offered = [name for name in figures.__all__ if name.endswith("_figure")]
    assert {name.removesuffix("_figure") for name in offered} == set(EVERY) - {"undetermined"}
    assert all(callable(getattr(figures, name)) for name in figures.__all__)
    with pytest.raises(AttributeError, match="no_such_figure"):
        getattr(figures, "no_such_figure")  # noqa: B009
