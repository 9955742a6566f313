"""The knee of verify, and its growth with the sequences beside that with the tokens."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.model.made_fits import DRAWS, together
from tests.model.made_runs import configuration, inspection, ranks, run
from toolkit.api import inspect_runs, read_runs
from toolkit.model.cell import GroupKey, setting_of
from toolkit.model.cycle_time import cycle_at
from toolkit.model.fit import fit_cost_model
from toolkit.model.knee import with_knee
from toolkit.model.recall import fitted_of
from toolkit.model.terms import Setting, phase_vector
from toolkit.schema.cost import GroupModel
from toolkit.schema.inspection import Inspection

KNEE = 60.0


def made(bend_us: float, gpu: str = "g", uneven: float = 0.0) -> Inspection:
    """Verify of 5000 us, 30 a sequence and 2 a token, and `bend_us` more for each token beyond the knee."""
    runs = []
    for steps in (1, 3, 5):
        for batch in (1, 4, 8, 16, 24, 32):
            tokens = batch * (steps + 1)
            verify = 5000 + 30 * batch + 2 * tokens + bend_us * max(tokens - KNEE, 0)
            verify *= 1 + uneven * (-1) ** (batch + steps // 2)
            phases = {"draft": 200.0 * (steps - 1), "draft_extend": 300.0, "verify": verify}
            cell = configuration(
                steps,
                sum(phases.values()) + 150,
                batch_size=batch,
                padded_batch_size=batch,
                ranks=ranks(**{name: us for name, us in phases.items() if us > 0}),
            )
            runs.append(run(f"k{steps}b{batch}", cell, gpu=gpu))
    return inspection(*runs)


def group_of(runs: Inspection) -> GroupModel:
    return fit_cost_model(runs, draws=DRAWS).groups[0]


def coefficient(group: GroupModel, name: str) -> float:
    fitted = fitted_of(group, 0)
    return float(fitted.solution[group.columns.index(name)])


def test_tokens_beyond_a_knee_cost_what_they_do_and_it_lies_where_it_is() -> None:
    group = group_of(made(bend_us=40.0))
    assert group.cells[0].knee_tokens == pytest.approx(KNEE, rel=0.1)
    assert coefficient(group, "verify_compute_us") == pytest.approx(40, rel=0.1)
    assert coefficient(group, "verify_sequence_us") == pytest.approx(30, rel=0.3)


@pytest.mark.parametrize("uneven", [0.0, 0.02])
def test_a_straight_verify_has_no_knee_though_its_cycles_are_uneven(uneven: float) -> None:
    group = group_of(made(bend_us=0.0, uneven=uneven))
    assert group.cells[0].knee_tokens is None and "verify_compute_us" not in group.columns


def test_a_bend_at_few_tokens_is_no_knee_of_a_gpu_that_computes_fast() -> None:
    assert group_of(made(bend_us=40.0, gpu="NVIDIA H20")).cells[0].knee_tokens is not None
    knee = group_of(made(bend_us=40.0, gpu="NVIDIA H100 80GB HBM3")).cells[0].knee_tokens
    assert knee is None or knee >= 295 / 4


def test_a_published_verify_of_a_dense_model_on_an_h20_bends_near_its_roofline(
    tmp_path: Path, repository: Path
) -> None:
    public = repository / "tests" / "data" / "public" / "measurements.csv"
    lines = public.read_text("utf-8").splitlines()
    own = [line for line in lines[1:] if ",P16," in line and "verify cost dense" in line]
    rows = list(csv.DictReader([lines[0], *own]))
    measured = {
        (int(row["batch_size"]), int(row["num_draft_tokens"])): float(row["verify_ms"]) for row in rows
    }
    assert len(measured) == 20
    (tmp_path / "table.csv").write_text("\n".join([lines[0], *own]) + "\n", "utf-8")
    group = group_of(inspect_runs(read_runs([tmp_path / "table.csv"])))
    # its 148 TFLOP/s over 4.0 TB/s are 37 tokens; the bend is round, and steepest between 32 and 96
    assert group.cells[0].knee_tokens is not None and 37 / 2 < group.cells[0].knee_tokens < 37 * 2
    fitted = fitted_of(group, 0)
    errors = []
    for cell in group.cells:
        verify_us = float(phase_vector(group.columns, "verify", setting_of(cell)) @ fitted.solution)
        measured_us = 1000 * measured[cell.batch_size, cell.num_draft_tokens]
        errors.append(abs(verify_us / measured_us - 1))
    # a line in tokens and sequences errs by 13.6 % at most, 3.1 % on average
    assert max(errors) < 0.04 and sum(errors) / len(errors) < 0.02


def test_a_group_without_cells_on_both_sides_is_left_as_it_is() -> None:
    assert with_knee([], GroupKey("sglang", "m", "g", 1)) == []


def test_a_plain_step_beyond_the_knee_computes_as_verify_does() -> None:
    plain = [
        run(
            f"k0b{batch}",
            configuration(0, 5000.0 + 32 * batch, batch_size=batch, padded_batch_size=batch),
            gpu="g",
        )
        for batch in (1, 8, 32)
    ]
    group = group_of(together(made(bend_us=40.0), inspection(*plain)))
    assert "decode_compute_us" not in group.columns
    shape = setting_of(group.cells[0]).shape
    for batch in (96, 128):
        at = Setting(
            num_steps=0, num_draft_tokens=1, topk=1, batch_size=batch, context_tokens=None, shape=shape
        )
        found = cycle_at(fitted_of(group, 0), at)
        truth = 5000 + 32 * batch + 40 * (batch - KNEE)
        assert found.value == pytest.approx(truth, rel=0.15)
        assert found.lo and found.hi and found.lo <= truth <= found.hi
