"""Baselines of another kind of server (docs/pitfalls.md, 16), on made data whose truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.made_answers import at, near
from tests.model.made_fits import fit
from tests.model.made_runs import configuration, inspection, ranks, run
from toolkit.schema.inspection import RunReport

ASKED: dict[str, Any] = {"accept_by_position": (0.6, 0.35, 0.2), "steps": (0, 1, 2, 3)}
LENGTH = 1 + 0.6 + 0.35 + 0.2


def one(steps: int, us: float, *, overlap: bool, **changed: Any) -> RunReport:
    name = f"k{steps} {'with' if overlap else 'without'}"
    return run(name, configuration(steps, us, **changed), overlap_schedule=overlap)


def speculative(*, overlap: bool) -> list[RunReport]:
    return [one(steps, 17_000.0 + 1000 * steps, overlap=overlap) for steps in (1, 2, 3)]


def said(answer: Any) -> list[str]:
    return [text for text in answer.warnings if "overlap scheduler and speculation" in text]


def test_a_plain_step_without_the_overlap_scheduler_is_no_baseline_of_a_server_with_it() -> None:
    """Pitfall 16: 3 steps gain 18 % on a step of 11 ms and less on the server's own, which is not known."""
    answer = near(fit(inspection(one(0, 11_000.0, overlap=False), *speculative(overlap=True))), **ASKED)
    assert LENGTH * 11.0 / 20.0 > 1.15
    assert answer.baseline.cycle_ms.value is None and not answer.baseline.determined
    assert answer.recommendation.relative_to != "plain decoding"
    assert len(said(answer)) == 1 and "run plain decoding with the scheduler too" in said(answer)[0]


def test_a_plain_step_without_the_scheduler_is_priced_where_its_phase_was_timed() -> None:
    """Pitfall 16: of 11 ms the GPU works 8.5; with the scheduler the step takes between the two."""
    plain = one(0, 11_000.0, overlap=False, ranks=ranks(decode=8500.0))
    answer = near(fit(inspection(plain, *speculative(overlap=True))), **ASKED)
    baseline = answer.baseline
    assert not baseline.determined
    assert baseline.cycle_ms.lo is not None and baseline.cycle_ms.hi is not None
    assert 7.6 < baseline.cycle_ms.lo < 8.5 < 11.0 < baseline.cycle_ms.hi < 12.0
    assert "2.50 ms" in said(answer)[0]
    three = next(even for even in answer.break_even_accept_length if even.num_steps == 3)
    assert three.accept_length is None and three.lo is not None and three.hi is not None


def test_plain_decoding_with_and_without_the_scheduler_is_told_apart() -> None:
    """Pitfall 16: pooled, the two would make a baseline of 9.7 ms that neither server has."""
    both = [one(0, 8500.0, overlap=True), one(0, 11_000.0, overlap=False)]
    answer = near(fit(inspection(*both, *speculative(overlap=True))), **ASKED)
    assert answer.baseline.cycle_ms.value == pytest.approx(8.5, rel=2e-3)
    assert not said(answer)
    without = near(fit(inspection(*both, *speculative(overlap=False))), **ASKED)
    assert without.baseline.cycle_ms.value == pytest.approx(11.0, rel=2e-3)


def test_speculation_without_the_scheduler_against_plain_decoding_with_it_is_said() -> None:
    """Pitfall 16, the reverse: the plain server is one that can be had, so it counts, and is said."""
    answer = near(fit(inspection(one(0, 8500.0, overlap=True), *speculative(overlap=False))), **ASKED)
    assert answer.baseline.cycle_ms.value == pytest.approx(8.5, rel=2e-3)
    assert not at(answer, 0).extrapolated
    assert len(said(answer)) == 1 and "not speculation's" in said(answer)[0]
