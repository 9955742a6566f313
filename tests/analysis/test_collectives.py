"""Wire apart from wait, on ranks that a test has driven."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.made_trace import WIRE_US, Cycles, Engine, eagle_cycles
from toolkit.analysis.trace.collectives import PhaseCollectives, observed_draft_tp, phase_collectives
from toolkit.analysis.trace.consensus import places, usual_sequence
from toolkit.analysis.trace.trace_view import trace_view
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.inspection import CollectiveReport


def collectives_of(made: Cycles, folder: Path, phase: str) -> PhaseCollectives:
    view = trace_view([read_trace(path) for path in made.write(folder)])
    assert view is not None
    found = phase_collectives(view, phase, view.aligned)
    assert found is not None
    return found


def test_wire_is_what_the_last_rank_to_arrive_takes(tmp_path: Path) -> None:
    found = collectives_of(eagle_cycles(Cycles(ranks=4), 8), tmp_path, "verify")
    all_reduce = next(report for report in found.reports if report.op == "all_reduce")
    assert all_reduce.wire_us == pytest.approx(WIRE_US, abs=0.002)
    assert (all_reduce.per_cycle, all_reduce.group_size, all_reduce.algorithm) == (8, 4, "one_shot_push")
    assert all_reduce.matched_fraction == 1


def test_waits_are_those_that_were_made(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(ranks=3), 9)
    found = collectives_of(made, tmp_path, "verify")
    truth = np.array(made.waits["verify"])
    assert found.waits_ns / 1000 == pytest.approx(truth, abs=0.01)
    total = sum(report.wait_us_per_cycle or 0 for report in found.reports)
    assert total == pytest.approx(float(np.median(truth.mean(axis=1))), rel=0.15)  # medians do not add


def test_lost_kernels_do_not_shift_the_collectives_behind_them(tmp_path: Path) -> None:
    whole = collectives_of(eagle_cycles(Cycles(ranks=3), 20), tmp_path / "whole", "verify")
    lossy = collectives_of(eagle_cycles(Cycles(ranks=3, lose=0.01), 20), tmp_path / "lossy", "verify")
    for before, after in zip(whole.reports, lossy.reports, strict=True):
        assert after.wire_us == pytest.approx(before.wire_us, rel=0.02)
        assert after.wait_us_per_cycle == pytest.approx(before.wait_us_per_cycle, rel=0.2)
        assert 0.9 < (after.matched_fraction or 0) < 1


def test_one_rank_alone_says_nothing_about_the_wire(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(ranks=2), 4)
    view = trace_view([read_trace(made.write(tmp_path)[0])])
    assert view is not None
    found = phase_collectives(view, "verify", view.aligned)
    assert found is not None
    assert {(report.wire_us, report.wait_us_per_cycle) for report in found.reports} == {(None, None)}


def report(phase: str, group_size: int | None) -> CollectiveReport:
    return CollectiveReport(
        phase=phase,
        op="all_reduce",
        algorithm="one_shot",
        group_size=group_size,
        message_bytes=None,
        per_cycle=3,
        wire_us=None,
        wait_us_per_cycle=None,
        first_wait_us=None,
        first_wait_max_us=None,
        matched_fraction=None,
    )


def test_the_drafts_tensor_parallel_size_is_proven_by_its_collectives() -> None:
    phases = {"draft", "verify"}
    assert observed_draft_tp([report("verify", 8)], phases, 8) == 1
    assert observed_draft_tp([report("verify", 8), report("draft", 4)], phases, 8) == 4
    assert observed_draft_tp([report("verify", 8), report("draft", None)], phases, 8) is None
    assert observed_draft_tp([report("verify", 8)], {"verify"}, 8) is None
    assert observed_draft_tp([], phases, 1) == 1


def test_an_entry_keeps_its_place_when_others_are_lost() -> None:
    usual = np.array([1, 2, 3, 1, 2, 3, 4])
    assert places(np.array([1, 3, 1, 2, 3, 4]), usual).tolist() == [0, 2, 3, 4, 5, 6]
    assert places(np.array([1, 2, 3, 9, 1, 2, 3, 4]), usual).tolist() == [0, 1, 2, -1, 3, 4, 5, 6]


def test_the_usual_sequence_is_the_most_frequent_one() -> None:
    whole, cut = np.array([1, 2, 3]), np.array([1, 3])
    assert usual_sequence([cut, whole, whole]).tolist() == [1, 2, 3]
    assert usual_sequence([cut, whole]).tolist() == [1, 2, 3]


def test_a_draft_on_every_rank_is_seen_in_the_recorded_run(traces: Path) -> None:
    folder = next(traces.glob("*tp2-k3-b1"))
    view = trace_view([read_trace(path) for path in sorted(folder.glob("trace-*"))])
    assert view is not None
    drafts = phase_collectives(view, "draft", view.aligned)
    assert drafts is not None
    assert {(one.op, one.per_cycle, one.group_size) for one in drafts.reports} == {
        ("all_reduce", 6, 2),
        ("all_gather", 2, 2),
    }
    assert drafts.reports[0].wire_us == pytest.approx(2.1, abs=0.2)
    assert Engine().steps == 3
