"""Frames hold what the records hold, a row each, units in the names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.model.made_calibration import Host, calibration
from tests.model.made_runs import acceptance, allreduce, configuration, inspection, ranks, run, sweep
from toolkit import check, fit, inspect, predict, read_runs
from toolkit.report import frames
from toolkit.schema.inspection import DraftStep, HealthCheck

CELL = configuration(
    3,
    5000.0,
    ranks=ranks(draft=400.0, verify=4000.0),
    collectives=(allreduce("verify", 65, 2.5),),
    draft_steps=(DraftStep(forward=1, median_us=200.0), DraftStep(forward=2, median_us=190.0)),
    draft_steps_source="spans",
    acceptance=acceptance(2.6, accept_by_position=(0.8, 0.6, 0.2), se=0.05),
)
MADE = inspection(run("made", CELL, health=(HealthCheck(check="kernels captured", ok=None, detail="no"),)))
STRAIGHT = sweep((0, 2000.0), (1, 3000.0), (2, 3500.0), (4, 4500.0))


def one_row(frame: pd.DataFrame) -> dict[str, object]:
    assert len(frame) == 1
    return dict(frame.iloc[0])


def test_a_configuration_is_a_row_with_its_cycle_and_acceptance() -> None:
    row = one_row(frames.cycles(MADE))
    assert (row["run"], row["num_steps"], row["cycle_mean_us"], row["cycle_count"]) == (
        "made",
        3,
        5000.0,
        100,
    )
    assert (row["accept_length"], row["accept_length_se"]) == (2.6, 0.05)


def test_a_phase_of_a_rank_is_a_row_with_both_kinds_of_time_apart() -> None:
    table = frames.phases(MADE).set_index("phase")
    assert dict(table.graph_median_us) == {"draft": 400.0, "verify": 4000.0}
    assert table.stage_median_us.isna().all()


def test_draft_forwards_and_collectives_are_rows() -> None:
    assert list(frames.draft_forwards(MADE).median_us) == [200.0, 190.0]
    row = one_row(frames.collectives(MADE))
    assert (row["op"], row["per_cycle"], row["wire_us"]) == ("all_reduce", 65, 2.5)


def test_a_hazard_is_the_share_over_the_one_before() -> None:
    table = frames.acceptance_by_position(MADE)
    assert list(table.hazard.round(4)) == [0.8, 0.75, 0.3333]
    assert ((table.lo < table.share) & (table.share < table.hi)).all()


def test_a_check_that_cannot_tell_stays_none() -> None:
    assert one_row(frames.health(MADE))["ok"] is None


def test_spans_are_a_row_for_each_cycle_of_each_rank(traces: Path) -> None:
    recordings = read_runs([traces / "2026-11-29-sglang-llama8b-dummy-tp2-k3-b1"])
    table = frames.recorded_cycles(recordings)
    assert len(table) == sum(len(rank.cycles) for rank in recordings[0].spans)
    assert set(table.tp_rank) == {0, 1}
    periods = table[table.tp_rank == 0].t_ns.diff() / 1000
    assert 7000 < periods.median() < 8500  # us: what inspect says of the cycle


def test_candidates_of_several_forecasts_stand_below_each_other() -> None:
    model = fit(STRAIGHT)
    asked = [predict(model, accept_length=length, at_num_draft_tokens=3) for length in (1.2, 2.0)]
    table = frames.candidates(asked)
    assert len(table) == sum(len(one.candidates) for one in asked)
    assert table.recommended.sum() == 2
    two = table[(table.num_steps == 2)].iloc[1]
    assert two.gain == pytest.approx(two.tok_s / two.plain_tok_s - 1)
    assert two.break_even == pytest.approx(1.75, rel=0.02)


def test_a_fitted_cell_s_error_is_fitted_over_measured() -> None:
    model = fit(STRAIGHT)
    table = frames.fitted_cells(model)
    assert list(table.num_steps) == [0, 1, 2, 4]
    assert (table.error - (table.fitted_us / table.cycle_us - 1)).abs().max() < 1e-12
    assert set(frames.terms(model).name) >= {"decode_us", "verify_us"}


def test_a_checked_cell_is_a_row() -> None:
    row = one_row(frames.checked_cells(check(fit(STRAIGHT), sweep((3, 4000.0)))))
    assert (row["num_steps"], row["measured_ms"]) == (3, 4.0)


def test_a_calibration_s_timings_are_rows_in_us() -> None:
    made = calibration(Host(), sizes=(1, 2))
    latencies, forwards = frames.collective_latencies(made), frames.forward_times(made)
    assert (len(latencies), len(forwards)) == (len(made.collectives), len(made.forwards))
    assert latencies.median_us[0] == made.collectives[0].latency_us.median
    assert forwards.compute_us[0] == made.forwards[0].compute_us.median


def test_another_draft_tp_is_a_row(data: Path) -> None:
    folder = data / "draft-tp"
    model = fit(inspect([folder / "small-d2", folder / "plain", folder / "calibration-small"]))
    asked = predict(
        model, accept_length=2.0, at_num_draft_tokens=4, steps=(3,), current_steps=3, batch_size=1
    )
    row = one_row(frames.draft_tps(asked))
    assert (row["draft_tp"], row["gain"]) == (1, asked.draft_tp.sizes[0].gain.value)


def test_nothing_gives_an_empty_frame() -> None:
    nothing = replace(MADE, runs=())
    assert frames.cycles(nothing).empty and frames.phases(nothing).empty
