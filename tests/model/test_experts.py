"""Mixtures of experts: which models, and how their cycles grow with the step count."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.api import inspect_runs, read_runs
from toolkit.model.experts import Experts, bent, experts_of, touched
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.forecast import Question, Scenario

HEADER = "engine,hardware,target,tp_size,num_steps,topk,num_draft_tokens,batch_size,accept_length,cycle_ms\n"


@pytest.mark.parametrize(
    ("name", "experts"),
    [
        ("Qwen3-30B-A3B-Instruct-2507", (128, 8)),
        ("Qwen3-Next-80B-A3B-Instruct-FP8", (512, 10)),
        ("moonshotai/Kimi-K2-Instruct", (384, 8)),
        ("openai/gpt-oss-120b", (128, 4)),
        ("zai-org/GLM-4.6-FP8", (160, 8)),
        ("some-9B-A1B", (128, 8)),
        ("Llama-3.3-70B-Instruct", None),
        ("Qwen3-8B", None),
        ("GLM-4-9B", None),
        (None, None),
    ],
)
def test_experts_are_known_by_the_models_name(name: str | None, experts: tuple[int, int] | None) -> None:
    assert experts_of(name) == experts


def test_experts_touched_by_few_tokens_are_theirs_and_by_many_all() -> None:
    experts = Experts(128, 8)
    assert touched(experts, 1) == pytest.approx(8)
    assert touched(experts, 10_000) == pytest.approx(128, abs=0.01)


@given(st.sampled_from([(8, 2), (128, 8), (512, 10)]), st.integers(1, 256), st.integers(3, 16))
def test_a_width_bends_downwards_between_2_and_9_and_grows_everywhere(
    experts: tuple[int, int], batch: int, width: int
) -> None:
    def at(one: int) -> float:
        return bent(Experts(*experts), one, batch)

    assert at(2) == pytest.approx(2) and at(9) == pytest.approx(9)
    assert at(width - 1) < at(width)
    assert at(width + 1) - at(width) <= at(width) - at(width - 1) + 1e-9


def test_where_all_experts_are_read_a_width_is_straight() -> None:
    assert [bent(Experts(8, 2), width, 256) for width in (2, 5, 9, 12)] == pytest.approx([2, 5, 9, 12])


def forecast(folder: Path, target: str) -> float:
    """Fit cycles of 20 ms at 3 steps and 22 ms at 5, batch 8; return the forecast at 7 steps in ms."""
    path = folder / "measurements.csv"
    rows = [f"SGLang,H200,{target},8,{k},1,{k + 1},8,2.0,{ms}\n" for k, ms in ((3, 20.0), (5, 22.0))]
    path.write_text(HEADER + "".join(rows))
    model = fit_cost_model(inspect_runs(read_runs([path])))
    scenario = Scenario(row=1, num_steps=7, num_draft_tokens=8, batch_size=8, accept_length=2.0)
    cycle = predict(model, Question(scenarios=(scenario,))).candidates[0].cycle_ms
    assert cycle.value is not None
    return cycle.value


def test_a_dense_chain_goes_straight_on_and_one_of_experts_less_steeply(tmp_path: Path) -> None:
    assert forecast(tmp_path, "Llama-3.3-70B") == pytest.approx(24.0, rel=0.002)
    assert 23.0 < forecast(tmp_path, "Qwen3-235B-A22B") < 23.8


def test_timed_phases_are_taken_as_they_are_whatever_the_models_name(traces: Path) -> None:
    runs = sorted(traces.glob("*llama-8b-shaped-dummy-tp1-k[35]-b1"))
    inspection = inspect_runs(read_runs(runs))
    assert all(cell.experts is None for cell in fit_cost_model(inspection).groups[0].cells)
