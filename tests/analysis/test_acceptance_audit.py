"""The audit of acceptance: what a head should reach, and what its pattern points to when it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolkit.analysis.acceptance_audit import audits, changes, implied_length
from toolkit.schema.inspection import AcceptanceAudit, AcceptanceReport, Configuration, RunReport

CommandLine = Callable[..., "object"]


def run(
    length: float, by_position: tuple[float, ...] = (), kind: str = "real", topk: int = 1, **changed: object
) -> RunReport:
    cell = Configuration(
        batch_size=int(str(changed.get("batch", 1))),
        padded_batch_size=None,
        num_steps=5,
        num_draft_tokens=6,
        topk=topk,
        context_tokens=None,
        cycles=100,
        sources=("log",),
        cycle_us=None,
        cycle_source=None,
        acceptance=AcceptanceReport(
            accept_length=length,
            accept_by_position=by_position,
            requests=int(str(changed.get("requests", 0))),
            se=float(str(changed.get("se", 0.02))),
        ),
    )
    return RunReport(
        run=str(changed.get("name", "run")),
        engine="sglang",
        engine_version=None,
        model="m",
        gpu=None,
        tp_size=1,
        draft_tp=1,
        num_steps=5,
        topk=topk,
        num_draft_tokens=6,
        sources=("log",),
        acceptance_kind=kind,
        overlap_schedule=None,
        with_stack=None,
        configurations=(cell,),
        health=(),
    )


def audit(length: float, by_position: tuple[float, ...] = (), **changed: object) -> AcceptanceAudit:
    (found,) = audits(run(length, by_position, **changed), 0.77)  # type: ignore[arg-type]
    return found


def test_accuracy_of_077_implies_a_length_of_3_44_at_5_steps() -> None:
    assert implied_length(0.77, 5) == pytest.approx(3.44, abs=0.005)


def test_a_head_that_falls_16_percent_short_does_what_such_heads_do() -> None:
    assert audit(2.9).verdict == "as expected"
    assert audit(2.6).verdict == "short"
    assert audit(1.6).verdict == "fault"


def test_a_gap_too_large_for_tuning_is_a_fault_whose_place_acceptance_by_position_would_show() -> None:
    found = audit(1.91)
    assert found.verdict == "fault" and "not of tuning" in found.why and "by position" in found.why


def test_a_low_first_position_points_to_hidden_states_or_another_head() -> None:
    assert "hidden states wired wrongly" in audit(1.7, (0.38, 0.19, 0.08, 0.03, 0.02)).why


def test_a_steep_fall_after_the_first_points_to_the_heads_own_states() -> None:
    why = audit(2.06, (0.76, 0.23, 0.05, 0.01, 0.01)).why
    assert "its own states" in why and "hidden states wired" not in why


def test_a_length_of_one_points_to_nan_or_the_vocabulary_map() -> None:
    why = audit(1.0, (0.0, 0.0)).why
    assert "NaN" in why and "vocabulary map" in why


def test_requests_that_differ_much_point_to_the_workload() -> None:
    made = run(1.7, (0.4, 0.2, 0.1), requests=9, se=0.2)
    (found,) = audits(made, 0.77)
    assert "requests differ much" in found.why
    assert "requests differ much" not in audit(1.7, (0.4, 0.2, 0.1)).why


def test_what_cannot_be_audited_says_why() -> None:
    assert audit(1.2, kind="simulated").verdict == "cannot tell"
    assert audit(2.0, topk=4).verdict == "cannot tell"


def test_acceptance_that_changes_with_the_batch_points_to_the_engine() -> None:
    (said,) = changes([run(2.6, name="small"), run(1.9, name="large", batch=8)])
    assert "1.90 at batch 8 (large)" in said and "fault of the engine" in said
    assert not changes([run(2.6), run(2.5, batch=8)])
    assert not changes([run(2.6, kind="simulated"), run(1.9, kind="simulated", batch=8)])
