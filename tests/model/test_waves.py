"""Attention in waves: where a thread block takes one head of one request, and the GPU has so many places."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.api import inspect_runs, read_runs
from toolkit.model.fit import fit_cost_model
from toolkit.model.model_shape import DENSE, ModelShape, wave_requests


def test_four_requests_of_32_heads_fill_an_h200_and_a_fifth_takes_a_second_wave() -> None:
    requests = wave_requests(32, 1, "NVIDIA H200", "triton")
    assert requests == pytest.approx(132 / 32)
    shape = ModelShape(wave_requests=requests)
    assert [shape.waves(batch) for batch in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]


def test_half_the_heads_are_each_ranks_at_two_ranks() -> None:
    assert ModelShape(wave_requests=wave_requests(32, 2, "NVIDIA H200", "triton")).waves(8) == 1


@pytest.mark.parametrize(
    ("heads", "gpu", "backend"),
    [
        (None, "NVIDIA H200", "triton"),
        (32, "unknown", "triton"),
        (32, "NVIDIA H200", "fa3"),
        (32, None, None),
    ],
)
def test_where_waves_are_not_known_there_is_one(
    heads: int | None, gpu: str | None, backend: str | None
) -> None:
    assert wave_requests(heads, 1, gpu, backend) is None and DENSE.waves(256) == 1


def test_runs_of_small_batches_tell_of_the_second_wave_of_a_larger_one(traces: Path) -> None:
    folders = [*traces.glob("*-sglang-*-tp1-k[135]-b[148]"), *traces.glob("*-sglang-*-tp1-k[13]-b1-c*")]
    known = [folder for folder in sorted(folders) if not folder.name.endswith("-b8")]
    inspection = inspect_runs(read_runs(known))
    (group,) = fit_cost_model(inspection).groups
    assert "verify_waves_us" in group.columns and group.cells[0].wave_requests == pytest.approx(4.125)
