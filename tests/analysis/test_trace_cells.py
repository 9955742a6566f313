"""Configurations from traces: against what was launched, also where the profiler lost kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from tests.made_trace import WIRE_US, Cycles, Engine, eagle_cycles, plain_cycles
from toolkit.analysis.cells.trace_cells import trace_cells
from toolkit.analysis.trace.consensus import usual_sequence
from toolkit.analysis.trace.trace_view import TraceView, trace_view
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.inspection import Configuration
from toolkit.schema.run import RunInfo


def view(made: Cycles, folder: Path) -> TraceView:
    found = trace_view([read_trace(path) for path in made.write(folder)])
    assert found is not None
    return found


def only(made: Cycles, folder: Path, info: RunInfo | None = None) -> Configuration:
    (cell,) = trace_cells(view(made, folder), info or RunInfo()).values()
    return cell


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_phases_steps_and_collectives_are_those_that_were_launched(
    tmp_path: Path, ranks: int, steps: int
) -> None:
    made = eagle_cycles(Cycles(ranks), 8, Engine(steps=steps, layers=3))
    cell = only(made, tmp_path)
    assert (cell.num_steps, cell.num_draft_tokens, cell.batch_size) == (steps, steps + 1, 1)
    assert len(cell.draft_steps) == steps - 1
    for rank in cell.ranks:
        for name in ("verify", "draft_extend", *(["draft"] if steps > 1 else [])):
            time = rank.phases[name].graph_us
            assert time is not None
            truth = median(by_rank[rank.tp_rank] for by_rank in made.truth[name])
            assert time.median == pytest.approx(truth, abs=0.01)
    counts = {(c.phase, c.op): c.per_cycle for c in cell.collectives}
    assert counts["verify", "all_reduce"] == 6
    assert counts["verify", "all_gather"] == 1
    assert counts.get(("draft", "all_reduce"), 0) == 2 * (steps - 1)


def test_wire_and_wait_are_told_apart_on_two_ranks(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(2), 8, Engine(steps=3))
    cell = only(made, tmp_path)
    verify = [c for c in cell.collectives if c.phase == "verify"]
    assert {c.wire_us for c in verify} == {WIRE_US}
    waited = sum(c.wait_us_per_cycle or 0.0 for c in verify)
    truth = median(sum(by_rank) / 2 for by_rank in made.waits["verify"])
    assert waited == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("lose", [0.005, 0.02])
def test_lost_kernels_change_neither_counts_nor_steps(tmp_path: Path, lose: float) -> None:
    made = eagle_cycles(Cycles(2, lose=lose, seed=4), 20, Engine(steps=4, layers=20))
    cell = only(made, tmp_path)
    assert cell.num_steps == 4
    counts = {(c.phase, c.op): c.per_cycle for c in cell.collectives}
    assert counts == {
        ("draft", "all_reduce"): 6,
        ("draft", "all_gather"): 3,
        ("verify", "all_reduce"): 40,
        ("verify", "all_gather"): 1,
        ("draft_extend", "all_reduce"): 2,
        ("draft_extend", "all_gather"): 1,
    }
    for report in cell.collectives:
        assert report.matched_fraction is not None
        assert report.matched_fraction >= 0.8  # of 20 instances of the rarest kind
        assert report.wire_us == pytest.approx(WIRE_US, abs=0.01)


def test_where_every_occurrence_lost_something_together_they_hold_it_all() -> None:
    whole = np.array([1, 2, 3, 4, 1, 2, 3, 4, 5, 6])
    lossy = [np.delete(whole, at) for at in (0, 2, 5, 7, 9)]
    assert usual_sequence(lossy).tolist() == whole.tolist()


def test_what_one_of_many_occurrences_adds_is_not_usual() -> None:
    whole = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    lossy = [np.delete(whole, at) for at in range(6)]
    assert usual_sequence([*lossy, np.insert(whole, 4, 99)]).tolist() == whole.tolist()


def test_plain_decoding_has_no_steps_and_one_token(tmp_path: Path) -> None:
    cell = only(plain_cycles(Cycles(), 6), tmp_path)
    assert (cell.num_steps, cell.num_draft_tokens, list(cell.ranks[0].phases)) == (0, 1, ["decode", "gap"])


def test_drafts_that_are_sorted_may_branch_so_their_number_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sort = "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long>(...)"
    monkeypatch.setattr(
        "tests.made_trace.DRAFT", ("gemm_x", "_fwd_grouped_kernel_stage1", *["gemm_y"] * 7, sort)
    )
    made = eagle_cycles(Cycles(), 6, Engine(steps=3))
    assert only(made, tmp_path).num_draft_tokens is None
    assert only(made, tmp_path, RunInfo(topk=1)).num_draft_tokens == 4
    assert only(made, tmp_path, RunInfo(topk=2, num_draft_tokens=6)).num_draft_tokens == 6


def test_cycles_without_a_named_batch_are_of_the_runs_batch(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(), 4)
    eagle_cycles(made, 4, Engine(named=False))
    cells = trace_cells(view(made, tmp_path), RunInfo(batch_size=1))
    assert [cell.batch_size for cell in cells.values()] == [1]


def test_what_the_run_says_of_itself_is_not_guessed(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(), 6, Engine(steps=3))
    info = RunInfo(num_steps=3, num_draft_tokens=4, topk=1, context_tokens=777, batch_size=9)
    cell = only(made, tmp_path, info)
    assert (cell.num_steps, cell.context_tokens, cell.batch_size) == (3, 777, 1)  # the trace shows its batch


def test_a_gap_is_what_no_phase_covers(tmp_path: Path) -> None:
    cell = only(eagle_cycles(Cycles(), 8, Engine(steps=2)), tmp_path)
    assert cell.cycle_us is not None
    spans = [time.graph_us for name, time in cell.ranks[0].phases.items() if time.graph_us and name != "gap"]
    gap = cell.ranks[0].phases["gap"].graph_us
    assert gap is not None
    assert gap.mean == pytest.approx(cell.cycle_us.mean - sum(span.mean for span in spans), rel=0.05)


def test_a_missing_rank_leaves_the_others_joined(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(4), 6)
    paths = made.write(tmp_path)
    found = trace_view([read_trace(path) for path in paths if "TP-2" not in path.name])
    assert found is not None
    (cell,) = trace_cells(replace(found), RunInfo()).values()
    assert [rank.tp_rank for rank in cell.ranks] == [0, 1, 3]
    assert {c.matched_fraction for c in cell.collectives} == {1.0}
