"""Runs of several draft models on one target: their costs and their acceptance are never pooled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.made_answers import near
from tests.model.made_fits import DRAWS, fit
from tests.model.made_runs import acceptance, configuration, inspection, run
from toolkit.api import inspect_runs, read_runs
from toolkit.errors import UndeterminedError
from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model
from toolkit.model.fit_report import fit_report
from toolkit.report.fit_text import fit_text
from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.inspection import Inspection, RunReport


def speculating(draft_model: str | None, step_us: float, share: float) -> list[RunReport]:
    """Runs of 1, 3 and 5 steps; a step of the draft costs `step_us` and a draft is kept with `share`."""
    return [
        run(
            f"{draft_model}-k{steps}",
            configuration(
                steps,
                10_500.0 + step_us * steps,
                acceptance=acceptance(
                    1 + sum(share**at for at in range(1, steps + 1)),
                    accept_by_position=tuple(share**at for at in range(1, steps + 1)),
                    se=0.01,
                ),
            ),
            draft_model=draft_model,
            acceptance_kind="real",
        )
        for steps in (1, 3, 5)
    ]


PLAIN = run("plain", configuration(0, 10_000.0))
SMALL = speculating("small", 200.0, 0.5)
LARGE = speculating("large", 1_500.0, 0.8)


def both(*more: RunReport) -> Inspection:
    return inspection(PLAIN, *SMALL, *LARGE, *more)


def of(model: CostModel, draft_model: str | None) -> GroupModel:
    return next(group for group in model.groups if group.draft_model == draft_model)


def test_costs_and_acceptance_of_two_draft_models_are_kept_apart() -> None:
    model = fit(both())
    assert [group.draft_model for group in model.groups] == ["small", "large"]
    for name, step_us, share in (("small", 200.0, 0.5), ("large", 1_500.0, 0.8)):
        group = of(model, name)
        fitted = {cell.num_steps: cell.fitted_us for cell in group.cells}
        assert fitted[5] == pytest.approx(10_500.0 + 5 * step_us, rel=0.02)
        assert group.curve is not None
        kept = [kept / risk for kept, risk in zip(group.curve.kept, group.curve.at_risk, strict=True)]
        assert kept == pytest.approx([share] * 5)
        assert 0 in fitted  # plain decoding has no draft model and is in both
    assert any("2 draft models are fitted apart" in text for text in model.warnings)


def test_a_question_chooses_by_draft_model() -> None:
    model = fit(both())
    with pytest.raises(UndeterminedError, match="choose with --draft-model"):
        near(model)
    small, large = near(model, draft_model="small"), near(model, draft_model="large")
    assert small.inputs["draft_model"] == "small"
    assert large.candidates[5].cycle_ms.value == pytest.approx(18.0, rel=0.03)
    assert small.candidates[5].cycle_ms.value == pytest.approx(11.5, rel=0.03)


def test_the_groups_of_a_fit_are_named_by_their_draft_models() -> None:
    text = fit_text(fit_report(fit(both()), "m.json"))
    assert "TP1, draft small" in text and "TP1, draft large" in text
    assert "draft small" not in fit_text(fit_report(fit(inspection(PLAIN, *SMALL)), "m.json"))


def test_an_unknown_draft_model_joins_the_only_known_one_and_it_is_said() -> None:
    unnamed = run("unnamed", configuration(7, 11_900.0))
    model = fit(inspection(PLAIN, *SMALL, unnamed))
    assert [group.draft_model for group in model.groups] == ["small"]
    assert "unnamed" in {cell.run for cell in model.groups[0].cells}
    assert any("unnamed names no draft model and counts as runs of small" in text for text in model.warnings)


def test_an_unknown_draft_model_joins_none_of_several() -> None:
    model = fit(both(run("unnamed", configuration(7, 11_900.0))))
    assert {group.draft_model for group in model.groups} == {"small", "large", None}
    assert {cell.run for cell in of(model, None).cells} == {"plain", "unnamed"}
    assert near(model, draft_model="unknown", accept_length=2.0, steps=(7,)).inputs["draft_model"] is None


def test_a_run_is_checked_against_the_group_of_its_draft_model() -> None:
    model = fit(both())
    report = check_model(model, inspection(LARGE[1], PLAIN), "m.json")
    assert [cell.error for cell in report.configurations] == pytest.approx([0.0, 0.0], abs=0.03)
    other = run("other", configuration(3, 11_000.0), draft_model="another")
    with pytest.raises(UndeterminedError, match=r"no group .*draft another"):
        check_model(model, inspection(other), "m.json")


def test_rows_of_one_table_keep_their_draft_models_apart(tmp_path: Path) -> None:
    table = tmp_path / "measurements.csv"
    rows = ["sglang,m,g,1,,0,1,1,,10.0"]
    for draft_model, step_ms in (("small", 0.2), ("large", 1.5)):
        rows += [f"sglang,m,g,1,{draft_model},{k},1,{k + 1},2.0,{10.5 + step_ms * k}" for k in (1, 3, 5)]
    header = (
        "engine,target,hardware,tp_size,draft,num_steps,batch_size,num_draft_tokens,accept_length,cycle_ms"
    )
    table.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    model = fit_cost_model(inspect_runs(read_runs([table])), draws=DRAWS)
    assert {group.draft_model: len(group.cells) for group in model.groups} == {"small": 4, "large": 4}


def test_spreads_of_one_configuration_are_not_taken_over_draft_models() -> None:
    """Two draft models at one setting are no replicates: their difference is no run-to-run spread."""
    one = run("one", configuration(3, 11_000.0), draft_model="a")
    other = run("two", configuration(3, 15_000.0), draft_model="b")
    assert all(group.noise.replicate_dof == 0 for group in fit(inspection(PLAIN, one, other)).groups)
