"""What `predict --emit` writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from toolkit.errors import UndeterminedError, UsageError
from toolkit.forecast.group_choice import chosen_group
from toolkit.ingest.model_file import write_new_text
from toolkit.recommend.answer import predict
from toolkit.report.engine_flags import (
    adaptive_flags,
    adaptive_text,
    recommended_candidate,
    sglang_flags_text,
    vllm_schedule_text,
    vllm_text,
)
from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.forecast import Forecast, Question


def write_emitted(
    emit: tuple[str, Path], model: CostModel, question: Question, forecast: Forecast, *, overwrite: bool
) -> str:
    """Write the file and return a sentence about it."""
    form, path = emit
    _check_engine(form, forecast)
    if form == "sglang-adaptive":
        schedule = _schedule(model, question)
        write_new_text(path, adaptive_text(schedule), overwrite=overwrite)
        return f"toolkit: wrote {path}; start SGLang with {adaptive_flags(schedule, str(path))}"
    if form == "vllm" and _knows_schedules(model, question):
        schedule = _schedule(model, question)
        if len({steps for _, steps in schedule}) > 1:
            write_new_text(path, vllm_schedule_text(schedule), overwrite=overwrite)
            return f"toolkit: wrote {path}; add method and model of the running server's --speculative-config"
    candidate = recommended_candidate(forecast)
    text = sglang_flags_text(candidate) if form == "sglang-flags" else vllm_text(candidate)
    write_new_text(path, text, overwrite=overwrite)
    return f"toolkit: wrote {path}"


def _knows_schedules(model: CostModel, question: Question) -> bool:
    """Say whether the fitted servers are of a vLLM that takes a schedule: 0.33 does, 0.22 does not."""
    group = _group(model, question)
    numbers = [tuple(int(part) for part in re.findall(r"\d+", one)[:2]) for one in group.engine_versions]
    return group.engine == "vllm" and bool(numbers) and min(numbers) >= (0, 33)


def _group(model: CostModel, question: Question) -> GroupModel:
    return chosen_group(
        model,
        engine=question.engine,
        model_name=question.model_name,
        gpu=question.gpu,
        tp_size=question.tp_size,
        draft_model=question.draft_model,
    )


def _check_engine(form: str, forecast: Forecast) -> None:
    engine = forecast.inputs.get("engine")
    if engine in ("sglang", "vllm") and not form.startswith(str(engine)):
        raise UsageError(f"--emit {form} is not for {engine}, the engine of the fitted runs; choose its form")


def _schedule(model: CostModel, question: Question) -> list[tuple[int, int]]:
    """Return the step count for each batch size that was measured, where the answer is determined.

    The engine's schedule speaks of chains only.
    """
    group = _group(model, question)
    schedule = []
    for batch in sorted({cell.padded_batch_size for cell in group.cells}):
        try:
            answer = predict(model, replace(question, batch_size=batch, topk=1, scenarios=None))
        except UndeterminedError:
            continue
        if answer.recommendation.candidate is not None:
            schedule.append((batch, answer.candidates[answer.recommendation.candidate].num_steps))
    if not schedule:
        raise UndeterminedError(
            "no measured batch size has a determined answer, so there is no schedule to write"
        )
    return schedule
