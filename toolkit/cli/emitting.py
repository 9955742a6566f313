"""What `predict --emit` writes."""

from __future__ import annotations

import re
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.ingest.model_file import write_new_text
from toolkit.recommend.schedule import asked_group, schedule
from toolkit.report.engine_flags import (
    adaptive_flags,
    adaptive_text,
    recommended_candidate,
    sglang_flags_text,
    vllm_schedule_text,
    vllm_text,
)
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Forecast, Question


def write_emitted(
    emit: tuple[str, Path], model: CostModel, question: Question, forecast: Forecast, *, overwrite: bool
) -> str:
    """Write the file and return a sentence about it."""
    form, path = emit
    _check_engine(form, forecast)
    if form == "sglang-adaptive":
        by_batch = schedule(model, question)
        write_new_text(path, adaptive_text(by_batch), overwrite=overwrite)
        return f"toolkit: wrote {path}; start SGLang with {adaptive_flags(by_batch, str(path))}"
    if form == "vllm" and _knows_schedules(model, question):
        by_batch = schedule(model, question)
        if len({steps for _, steps in by_batch}) > 1:
            write_new_text(path, vllm_schedule_text(by_batch), overwrite=overwrite)
            return f"toolkit: wrote {path}; add method and model of the running server's --speculative-config"
    candidate = recommended_candidate(forecast)
    text = sglang_flags_text(candidate) if form == "sglang-flags" else vllm_text(candidate)
    write_new_text(path, text, overwrite=overwrite)
    return f"toolkit: wrote {path}"


def _knows_schedules(model: CostModel, question: Question) -> bool:
    """Say whether the fitted servers are of a vLLM that takes a schedule: 0.33 does, 0.22 does not."""
    group = asked_group(model, question)
    numbers = [tuple(int(part) for part in re.findall(r"\d+", one)[:2]) for one in group.engine_versions]
    return group.engine == "vllm" and bool(numbers) and min(numbers) >= (0, 33)


def _check_engine(form: str, forecast: Forecast) -> None:
    engine = forecast.inputs.get("engine")
    if engine in ("sglang", "vllm") and not form.startswith(str(engine)):
        raise UsageError(f"--emit {form} is not for {engine}, the engine of the fitted runs; choose its form")
