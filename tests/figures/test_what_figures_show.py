"""Figures show the numbers of the records they are drawn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tests.figures.made_figures import (
    EVERY,
    cycle_cell,
    draft_tp_forecast,
    forecast,
    host,
    model,
    texts,
    three_step_counts,
    undetermined,
)
from tests.model.made_runs import acceptance, configuration, inspection, ranks, run, spread, sweep
from toolkit import figures
from toolkit.api import fit
from toolkit.figures.cycle_parts import Part, mean_parts, parts_of
from toolkit.schema.inspection import PhaseTime


def bars(axes: Axes) -> list[Rectangle]:
    """Return the bars of phases, those of waiting left out."""
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_hatch()]
    return sorted(found, key=lambda patch: (patch.get_y(), patch.get_x()))


def test_phases_of_a_cycle_are_laid_end_to_end_to_scale() -> None:
    (axes,) = EVERY["cycle"]().axes
    first = bars(axes)[:5]
    assert [round(patch.get_x(), 3) for patch in first] == [0, 0.4, 4.4, 4.45, 4.7]
    assert [round(patch.get_width(), 3) for patch in first] == [0.4, 4.0, 0.05, 0.25, 0.3]


def test_waiting_is_the_end_of_its_phase() -> None:
    (axes,) = EVERY["cycle"]().axes
    (wait,) = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    assert (round(wait.get_x() + wait.get_width(), 3), round(wait.get_width(), 3)) == (4.4, 0.1)


def test_what_only_the_call_was_timed_of_is_hollow_and_leaves_no_rest() -> None:
    phases = {"draft": PhaseTime(stage_us=spread(500.0)), "verify": PhaseTime(graph_us=spread(4000.0))}
    rank = replace(ranks(draft=1.0)[0], phases=phases)
    assert parts_of(rank, 9000.0) == (Part("draft", 500.0, graph=False), Part("verify", 4000.0))


def test_what_no_phase_has_is_the_rest_where_all_were_timed_on_the_gpu() -> None:
    assert parts_of(ranks(draft=500.0, verify=4000.0)[0], 5000.0)[-1] == Part("rest", 500.0)


def test_a_trace_s_gap_is_kept_and_no_rest_added() -> None:
    assert [part.phase for part in parts_of(ranks(verify=4000.0, gap=500.0)[0], 5000.0)] == ["verify", "gap"]


def test_parts_of_several_ranks_are_means() -> None:
    both = (ranks(verify=4000.0)[0], replace(ranks(verify=3000.0)[0], tp_rank=1))
    cell = configuration(0, 4000.0, ranks=both)
    assert mean_parts(cell) == (Part("verify", 3500.0), Part("rest", 500.0))


def test_a_token_s_time_is_the_cycle_s_over_the_accept_length() -> None:
    (axes,) = EVERY["against_plain"]().axes
    said = texts(axes)
    assert any("2.00 ms, 1.50 tokens a cycle\n1.00 x plain" in text for text in said)
    assert any("1.67 ms, 3.00 tokens a cycle\n1.20 x plain" in text for text in said)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["plain", "1 step", "3 steps"]


def test_only_runs_of_one_server_and_batch_are_compared() -> None:
    runs = three_step_counts().runs
    other = run("other", configuration(0, 900.0), tp_size=8)
    found = figures.comparisons(inspection(*runs, other))
    assert [[one.run for one, _ in (compared.plain, *compared.speculative)] for compared in found] == [
        ["k0", "k1", "k3"]
    ]


def test_a_long_context_is_not_compared_with_a_short_one() -> None:
    plain = run("k0", configuration(0, 2000.0, context_tokens=300))
    far = run("k1", configuration(1, 3000.0, context_tokens=3000, acceptance=acceptance(1.5)))
    assert not figures.comparisons(inspection(plain, far))


def test_acceptance_by_position_has_a_point_and_an_interval_for_each() -> None:
    (axes,) = EVERY["acceptance"]().axes
    (line,) = [line for line in axes.lines if len(line.get_xdata()) == 3 and line.get_linestyle() == "-"]
    assert list(line.get_ydata()) == [0.9, 0.7, 0.4]


def test_fitted_figure_draws_each_configuration_in_both_panels() -> None:
    left, right = EVERY["fitted"]().axes
    for axes in (left, right):
        points = sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() != "None")
        assert points == len(model().groups[0].cells)


def test_a_run_outside_its_interval_is_marked_otherwise() -> None:
    (axes,) = EVERY["checked"]().axes
    markers = [line.get_marker() for line in axes.lines if len(line.get_xdata()) == 1]
    assert sorted(markers) == ["X", "o"]


def test_throughput_draws_plain_decoding_at_its_speed() -> None:
    (axes,) = EVERY["throughput"]().axes
    plain = forecast().baseline.tok_s.value
    assert plain is not None
    assert any(list(line.get_ydata()) == [plain, plain] for line in axes.lines)
    assert f"plain\ndecoding\n{plain:,.0f}" in texts(axes)


def test_step_counts_that_are_open_are_ranges_without_a_value() -> None:
    (axes,) = EVERY["undetermined"]().axes
    ranges = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    open_rows = [one for one in undetermined().candidates if not one.determined]
    assert len(ranges) == len(open_rows) == 7
    ends = {(round(one.get_y(), 3), round(one.get_y() + one.get_height(), 3)) for one in ranges}
    assert ends == {(round(one.tok_s.lo or 0, 3), round(one.tok_s.hi or 0, 3)) for one in open_rows}


def test_break_even_is_drawn_at_its_accept_length() -> None:
    axes = EVERY["accept_length_map"]().axes[0]
    marks = {round(float(line.get_xdata()[0]), 6) for line in axes.lines}
    evens = [one.accept_length for one in forecast().break_even_accept_length]
    assert len(evens) == 8
    assert {round(even or 0, 6) for even in evens} <= marks


def test_no_step_count_is_coloured_beyond_what_it_can_give() -> None:
    axes = EVERY["accept_length_map"]().axes[0]
    (mesh,) = axes.collections
    shown = np.ma.getmaskarray(mesh.get_array())
    assert shown[0].any() and not shown[-1].all()


def test_the_fastest_of_each_batch_is_framed() -> None:
    axes = EVERY["batch_map"]().axes[0]
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    values = [float(text) for text in texts(axes)]
    assert len(frames) == 3
    best = sorted(
        values[column * 9 : column * 9 + 9][round(frame.get_y() + 0.47)]
        for column, frame in enumerate(frames)
    )
    assert best == sorted(max(values[column * 9 : column * 9 + 9]) for column in range(3))


def test_an_all_reduce_has_a_panel_a_group_and_a_line_an_algorithm() -> None:
    panels = EVERY["allreduce"]().axes
    assert [axes.get_title(loc="left") for axes in panels] == ["4 x g: 2 ranks", "4 x g: 4 ranks"]
    assert [len(axes.lines) for axes in panels] == [2, 2]


def test_the_draft_tp_of_today_is_the_hollow_reference_of_the_gains() -> None:
    left, right = EVERY["draft_tp"]().axes
    hollow = [line for line in left.lines if line.get_markerfacecolor() == "white"]
    assert [float(line.get_ydata()[0]) for line in hollow] == [0.8]
    assert any("a free draft: +20.0 %" in text for text in texts(right))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.cycle_figure(run("r", cycle_cell(ranks=())), cycle_cell(ranks=())),
        lambda: figures.acceptance_figure([]),
        lambda: figures.draft_tp_figure(forecast()),
        lambda: figures.allreduce_figure(replace(host(), collectives=())),
        lambda: figures.fitted_figure(replace(model().groups[0], cells=())),
        lambda: figures.throughput_figure(replace(forecast(), candidates=())),
        lambda: figures.accept_length_map_figure(replace(forecast(), break_even_accept_length=())),
    ],
    ids=["cycle", "acceptance", "draft_tp", "allreduce", "fitted", "throughput", "accept_length_map"],
)
def test_a_figure_of_nothing_is_refused_in_a_sentence(draw: object) -> None:
    assert callable(draw)
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        draw()


def test_one_configuration_is_enough_for_a_fitted_figure() -> None:
    assert figures.fitted_figure(fit(sweep((0, 2000.0))).groups[0]).axes


def test_a_draft_tp_forecast_keeps_today_s_reference() -> None:
    assert draft_tp_forecast().draft_tp.sizes[0].draft_tp == 1
