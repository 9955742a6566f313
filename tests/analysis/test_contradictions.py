"""Published tables that contradict themselves are refused or warned about, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.defective_tables import Verdict, verdicts
from tests.benchmarks.founding_case import statements
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.schema.measurement import Measurement
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo

REASONS = {
    "cycle_below_base_step": ("refused", "warned", "shorter than the plain step"),
    "verify_includes_draft_step": ("warned", "warned", "may be that of one step"),
    "hardware_disputed": ("refused", "refused", "no cycle time"),
    "target_and_batch_unknown": ("refused", "refused", "batch size is not known"),
    "outlier_same_server": ("warned", "warned", "a tree is up to 18% faster than the chain"),
    "accept_length_above_width": ("refused", "refused", "more than the 3 tokens verified per cycle"),
    "window_contains_prefill": ("warned", "warned", "80.6 ms where the same setting has 42.6 ms"),
    "accept_length_not_derivable": ("warned", "warned", "100 cycles, 1.36 tokens each"),
}


@pytest.fixture(scope="module")
def found(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    return list(verdicts(data / "public", tmp_path_factory.mktemp("tables")))


@pytest.mark.parametrize("defect", REASONS)
def test_a_defective_table_is_refused_or_warned_about_with_the_reason(
    found: list[Verdict], defect: str
) -> None:
    *answers, reason = REASONS[defect]
    (one,) = [verdict for verdict in found if defect in verdict.defects]
    assert one.answer in answers
    assert any(reason in text for text in one.said), one.said


def test_no_defective_table_passes_in_silence(found: list[Verdict]) -> None:
    assert {defect for one in found for defect in one.defects} == set(REASONS)
    assert [one.table for one in found if one.answer == "silent"] == []


def test_plain_steps_of_one_server_that_are_far_apart_are_named(found: list[Verdict]) -> None:
    """On three data sets the same server decodes plainly in 12.7, 14.2 and 27.7 ms."""
    said = next(one.said for one in found if "cycle_below_base_step" in one.defects)
    assert any("plain decoding at batch 8 takes 12.66 ms in B81 and 27.69 ms in B85" in text for text in said)


def test_the_founding_case_says_what_is_known_of_it(data: Path) -> None:
    wrong = [one for one in statements(data / "kimi-k2.5-tp8") if one.agrees is False]
    assert wrong == []


def test_sound_rows_contradict_nothing() -> None:
    rows = tuple(
        Measurement(
            row=at + 2,
            engine="sglang",
            num_steps=3,
            topk=topk,
            num_draft_tokens=4,
            batch_size=1,
            accept_length=2.0,
            cycle_ms=cycle_ms,
            notes="n_predict 200 n_accept 100",
        )
        for at, (topk, cycle_ms) in enumerate(((1, 10.0), (1, 12.0), (2, 9.5)))
    )
    report = inspect_recording(Recording(name="t", source="t", info=RunInfo(), measurements=rows))
    assert [check.check for check in report.health if check.ok is False] == []
