"""Traces of several ranks against the truth, with kernels lost and clocks that are off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.made_trace import Cycles, Engine, eagle_cycles
from toolkit.analysis.cells.trace_cells import trace_cells
from toolkit.analysis.rank_health import collectives_matched, one_clock
from toolkit.analysis.trace.alike import alike_groups
from toolkit.analysis.trace.clocks import rank_clock
from toolkit.analysis.trace.collectives import phase_collectives
from toolkit.analysis.trace.kernel_names import class_mask
from toolkit.analysis.trace.trace_view import TraceView, trace_view
from toolkit.api import inspect_paths
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.run import RunInfo
from toolkit.schema.trace import Int64s, RankTrace

FEW = settings(max_examples=8, deadline=None, derandomize=True)


@FEW
@given(seed=st.integers(0, 10_000), offset_us=st.floats(-100, 100), drift_ppm=st.floats(-5, 5))
def test_offset_and_drift_of_a_clock_are_found_within_its_spread(
    seed: int, offset_us: float, drift_ppm: float
) -> None:
    chance = np.random.default_rng(seed)
    reference = np.sort(chance.uniform(0, 3e8, 500))  # 0.3 s
    own = reference * (1 + drift_ppm * 1e-6) + offset_us * 1000 + chance.normal(0, 200, 500)
    own[chance.random(500) < 0.1] = np.nan
    clock = rank_clock(reference, own, 1_790_000_000_000_000_000)
    assert clock is not None
    moments = np.array([10_000_000, 290_000_000], dtype=np.int64)
    there = (moments * (1 + drift_ppm * 1e-6) + offset_us * 1000).astype(np.int64) + 1_790_000_000_000_000_000
    back = clock.on_reference(there) - 1_790_000_000_000_000_000
    assert np.abs(back - moments).max() < 2 * clock.spread_ns
    assert clock.spread_ns == pytest.approx(200, rel=0.3)


def view_of(made: Cycles, folder: Path) -> TraceView:
    found = trace_view([read_trace(path) for path in made.write(folder)])
    assert found is not None
    return found


def later(trace: RankTrace, by_ns: int) -> RankTrace:
    return replace(trace, kernels=replace(trace.kernels, start_ns=trace.kernels.start_ns + by_ns))


def test_ranks_of_another_host_are_compared_with_nobody_and_named(tmp_path: Path) -> None:
    traces = view_of(eagle_cycles(Cycles(ranks=4), 8), tmp_path).traces
    away = 7_400_000_000
    view = trace_view([*traces[:2], *(later(trace, away) for trace in traces[2:])])
    assert view is not None
    assert (view.compared, view.apart) == ((0, 1), (2, 3))
    check = one_clock(view)
    assert check is not None
    assert check.ok is False
    assert "rank 2, 3 shares no clock" in check.detail
    found = phase_collectives(view, "verify", view.aligned)
    assert found is not None
    assert np.isfinite(found.waits_ns[:, :2]).all()
    assert np.isnan(found.waits_ns[:, 2:]).all()


def without(trace: RankTrace, lost: Any) -> RankTrace:
    """Return a trace less the kernels at these indices."""
    kept = np.ones(len(trace.kernels), dtype=bool)
    kept[lost] = False
    names = ("name", "start_ns", "duration_ns", "correlation", "stream", "group_size", "message_bytes")
    columns = {name: getattr(trace.kernels, name)[kept] for name in names}
    return replace(trace, kernels=replace(trace.kernels, **columns))


def test_a_cycle_that_one_rank_lost_shifts_no_other_cycle(tmp_path: Path) -> None:
    whole = view_of(eagle_cycles(Cycles(ranks=2, clocks_us=80, drift_ppm=5), 9), tmp_path)
    lost = whole.ranks[1].cycles[4].phases["verify"].kernels
    view = trace_view([whole.traces[0], without(whole.traces[1], lost)])
    assert view is not None
    assert len(view.aligned) == 8
    found = phase_collectives(view, "verify", view.aligned)
    assert found is not None
    assert {report.matched_fraction for report in found.reports} == {1.0}


def test_too_few_matched_collectives_are_not_split_and_a_sentence_says_so(tmp_path: Path) -> None:
    whole = view_of(eagle_cycles(Cycles(ranks=2), 20, Engine(layers=6)), tmp_path)
    trace = whole.traces[1]
    collectives = np.flatnonzero(class_mask(trace.names, trace.kernels.name, "collective"))
    view = trace_view(
        [
            whole.traces[0],
            without(
                trace, np.random.default_rng(1).choice(collectives, len(collectives) // 7, replace=False)
            ),
        ]
    )
    assert view is not None
    assert view.irregular is None
    (cell,) = trace_cells(view, RunInfo()).values()
    verify = [report for report in cell.collectives if report.phase == "verify"]
    (all_reduce,) = (report for report in verify if report.op == "all_reduce")
    assert all_reduce.matched_fraction == pytest.approx(1 - 1 / 14, abs=0.03)
    assert {(report.wire_us, report.wait_us_per_cycle) for report in verify} == {(None, None)}
    assert {rank.phases["verify"].wait_us for rank in cell.ranks} == {None}
    check = collectives_matched([cell])
    assert check is not None
    assert check.ok is False
    assert "wire and wait are not told apart" in check.detail


def test_collectives_that_do_not_end_together_are_not_one(tmp_path: Path) -> None:
    traces = view_of(eagle_cycles(Cycles(ranks=2), 10), tmp_path).traces
    kernels = traces[1].kernels
    start = kernels.start_ns.copy()
    start[len(start) // 2 :] += 300_000  # as where a clock jumps, or cycles were paired wrongly
    view = trace_view([traces[0], replace(traces[1], kernels=replace(kernels, start_ns=start))])
    assert view is not None
    found = phase_collectives(view, "verify", view.aligned)
    assert found is not None
    assert all((report.matched_fraction or 0) < 0.95 for report in found.reports)
    assert {report.wire_us for report in found.reports} == {None}


def test_equal_ranks_have_no_straggler(tmp_path: Path) -> None:
    for seed in range(3):
        written = eagle_cycles(Cycles(ranks=4, seed=seed), 20).write(tmp_path / str(seed))
        (run,) = inspect_paths(written).runs
        assert run.configurations[0].straggler is None


def test_the_straggler_is_named_in_words(tmp_path: Path) -> None:
    written = eagle_cycles(Cycles(ranks=2, slow=1, steady=True), 12).write(tmp_path)
    (run,) = inspect_paths(written).runs
    (cell,) = run.configurations
    assert cell.straggler is not None
    assert cell.straggler.tp_rank == 1
    assert any(note.startswith("the other ranks wait for rank 1") for note in cell.notes)


def test_a_graph_of_a_step_less_is_no_replay_that_lost_kernels() -> None:
    forward: Int64s = np.arange(30)
    long, short = np.tile(forward, 7), np.tile(forward, 6)
    lossy = np.delete(long, [3, 40, 41, 90])
    assert alike_groups([long] * 10 + [short] * 10 + [lossy], 30) == [0] * 10 + [1] * 10 + [0]


def test_node_ids_say_which_of_two_equal_kernels_was_lost(tmp_path: Path) -> None:
    traces = view_of(eagle_cycles(Cycles(ranks=2), 6), tmp_path).traces
    view = trace_view(traces)
    assert view is not None
    numbered = []
    for position, trace in enumerate(traces):
        node = np.zeros(len(trace.kernels), dtype=np.int64)
        for name, graphs in view.graphs.items():
            for placed in graphs.by_rank[position].values():
                node[placed.kernels] = placed.places + 1 + 1000 * sorted(view.graphs).index(name)
        numbered.append(replace(trace, kernels=replace(trace.kernels, node=node)))
    again = trace_view(numbered)
    assert again is not None
    for name, graphs in again.graphs.items():
        for placed in graphs.by_rank[0].values():
            assert len(placed.places) == len(placed.graph.usual), name
