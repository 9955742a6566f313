"""What `predict --emit` writes is taken by the engines' own checks, kept from the real packages."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UndeterminedError
from toolkit.report.engine_flags import adaptive_flags, adaptive_text, vllm_schedule_text

RULES = Path(__file__).resolve().parents[1] / "data" / "engine-rules"
schedules = st.dictionaries(st.integers(1, 256), st.integers(0, 8), min_size=1, max_size=6).map(
    lambda found: sorted(found.items())
)


def rules(name: str, **known: object) -> dict[str, Any]:
    """Return the functions of a kept extract."""
    space: dict[str, Any] = {"json": json, "DynamicSDSchedule": list, **known}
    exec(compile((RULES / name).read_text(encoding="utf-8"), name, "exec"), space)
    return space


def vllm_config(schedule: list[tuple[int, int]]) -> dict[str, Any]:
    flag, text = shlex.split(vllm_schedule_text(schedule))
    assert flag == "--speculative-config"
    config: dict[str, Any] = json.loads(text)
    return config


@given(schedules)
def test_vllm_takes_any_schedule_and_runs_each_measured_batch_at_its_steps(
    schedule: list[tuple[int, int]],
) -> None:
    if not any(steps for _, steps in schedule):
        with pytest.raises(UndeterminedError, match="no batch size gains"):
            vllm_schedule_text(schedule)
        return
    config = vllm_config(schedule)
    lookup = rules("vllm-0.33.0.py.txt")["build_dynamic_sd_schedule_lookup"]
    table = lookup(config["num_speculative_tokens_per_batch_size"], 512, config["num_speculative_tokens"])
    assert [table[batch] for batch, _ in schedule] == [steps for _, steps in schedule]
    assert table[512] == schedule[-1][1] and table[1] == schedule[0][1]


def test_equal_neighbours_are_one_range() -> None:
    ranges = vllm_config([(1, 5), (4, 5), (8, 3)])["num_speculative_tokens_per_batch_size"]
    assert ranges == [[1, 4, 5], [5, 8, 3]]


@given(schedules)
def test_sglang_takes_any_adaptive_schedule(schedule: list[tuple[int, int]]) -> None:
    text = adaptive_text(schedule)
    load = rules("sglang-0.5.15.py.txt", DEFAULT_ADAPTIVE_CONFIG={}, open=_Text)
    _, tiers = load["_load_adaptive_config"](text)
    flags = adaptive_flags(schedule, "a.json").split()
    start = int(flags[flags.index("--speculative-num-steps") + 1])
    assert start in {step for tier in tiers.values() for step in tier["candidate_steps"]}
    assert sorted(tiers)[0] == schedule[0][0]


class _Text:
    """A file that holds what its path says."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> _Text:
        return self

    def __exit__(self, *error: object) -> None: ...

    def read(self) -> str:
        return self.text
