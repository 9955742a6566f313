"""Cycles are recognised by what is launched, whatever the step count, engine and backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.made_trace import ARGMAX, DRAFT, REJECTION, Cycles, Engine, eagle_cycles, plain_cycles, target
from toolkit.analysis.trace.cycles import RankCycles, rank_cycles
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.trace import Annotations, RankTrace
from toolkit.units import us_from_ns


def cycles_of(made: Cycles, folder: Path, rank: int = 0) -> RankCycles:
    return rank_cycles(read_trace(made.write(folder)[rank]))


def spans_us(found: RankCycles, phase: str) -> list[float]:
    own = [cycle.phases[phase] for cycle in found.cycles if phase in cycle.phases]
    return [us_from_ns(one.end_ns - one.start_ns) for one in own]


def truth_us(made: Cycles, phase: str, rank: int = 0) -> list[float]:
    return [by_rank[rank] for by_rank in made.truth[phase]]


def without_ranges(trace: RankTrace) -> RankTrace:
    none = np.zeros(0, dtype=np.int64)
    return replace(trace, annotations=Annotations(none.astype(np.int32), none, none, none))


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
@pytest.mark.parametrize("graphs", [True, False])
def test_every_phase_takes_what_was_launched_for_it(tmp_path: Path, steps: int, graphs: bool) -> None:
    made = eagle_cycles(Cycles(), 6, Engine(steps=steps, graphs=graphs))
    found = cycles_of(made, tmp_path)
    assert found.speculative
    assert found.irregular is None
    # an eager draft pass ends before its last argmax, which is no model kernel
    for phase in ("verify", "draft_extend", *(["draft"] if steps > 1 and graphs else [])):
        assert spans_us(found, phase) == pytest.approx(truth_us(made, phase), abs=0.002)
    assert ("draft" in found.cycles[1].phases) == (steps > 1)


def test_an_eager_draft_extend_beside_two_graphs_is_found(tmp_path: Path) -> None:
    made = eagle_cycles(Cycles(), 6, Engine(extend_graph=False))
    found = cycles_of(made, tmp_path)
    assert spans_us(found, "draft_extend") == pytest.approx(truth_us(made, "draft_extend"), abs=0.002)
    assert not found.cycles[0].phases["draft_extend"].graph
    assert found.cycles[1].phases["draft"].graph


@pytest.mark.parametrize(
    "engine", [Engine(), Engine(steps=1), Engine(extend_graph=False), Engine(graphs=False)]
)
def test_without_the_engines_ranges_kernels_alone_give_the_same_phases(
    tmp_path: Path, engine: Engine
) -> None:
    made = eagle_cycles(Cycles(), 6, replace(engine, named=False))
    found = cycles_of(made, tmp_path)
    assert spans_us(found, "verify") == pytest.approx(truth_us(made, "verify"), abs=0.002)
    assert spans_us(found, "draft_extend") == pytest.approx(truth_us(made, "draft_extend"), abs=0.002)
    if (
        engine.steps > 1 and engine.graphs
    ):  # what came before the first draft is not in the trace, so it is not claimed
        assert spans_us(found, "draft") == pytest.approx(truth_us(made, "draft")[1:], abs=0.002)


def test_the_recorded_run_gives_the_same_phases_without_its_ranges(traces: Path) -> None:
    trace = read_trace(next(traces.glob("*tp2-k3-b1/trace-TP-0*")))
    named, unnamed = rank_cycles(trace), rank_cycles(without_ranges(trace))
    for phase in ("verify", "draft_extend"):
        assert spans_us(unnamed, phase) == spans_us(named, phase)
    assert spans_us(unnamed, "draft") == spans_us(named, "draft")[1:]


def test_plain_decoding_has_one_phase(tmp_path: Path) -> None:
    made = plain_cycles(Cycles(), 5)
    found = cycles_of(made, tmp_path)
    assert not found.speculative
    assert {name for cycle in found.cycles for name in cycle.phases} == {"decode"}
    assert spans_us(found, "decode") == pytest.approx(truth_us(made, "decode"), abs=0.002)


def test_a_cycle_lasts_from_one_target_forward_to_the_next(tmp_path: Path) -> None:
    made = plain_cycles(Cycles(), 4)
    found = cycles_of(made, tmp_path)
    starts = [cycle.start_ns for cycle in found.cycles]
    assert [cycle.period_ns for cycle in found.cycles] == [*np.diff(starts).tolist(), None]


def vllm_cycle(cycles: Cycles, steps: int, prompts: int = 0) -> None:
    name = f"execute_context_{prompts}({prompts * 16})_generation_1({steps + 1})"
    cycles.named(name, lambda: cycles.work(target(4), phase="verify"))
    cycles.work((ARGMAX, REJECTION), graph=False)
    cycles.work(DRAFT[:-1], phase="draft_extend")
    cycles.work((ARGMAX,), graph=False)
    for _ in range(steps - 1):
        cycles.work(DRAFT[:-1], phase="step")
        cycles.work((ARGMAX,), graph=False)
    cycles.wait_for_gpu()


def test_vllms_drafts_launched_one_a_step_are_one_draft_pass(tmp_path: Path) -> None:
    made = Cycles()
    for _ in range(5):
        vllm_cycle(made, steps=4)
    found = cycles_of(made, tmp_path)
    assert [len(cycle.phases["draft"].forwards) for cycle in found.cycles[1:]] == [3] * 4
    assert (found.cycles[0].batch_size, found.cycles[0].tokens) == (1, 5)
    assert spans_us(found, "draft_extend") == pytest.approx(truth_us(made, "draft_extend"), abs=0.002)


def test_a_cycle_beside_a_prefill_gives_no_period(tmp_path: Path) -> None:
    made = Cycles()
    for prompts in (0, 0, 1, 0, 0):
        vllm_cycle(made, steps=3, prompts=prompts)
    found = cycles_of(made, tmp_path)
    assert len(found.cycles) == 4
    assert [cycle.disturbed for cycle in found.cycles] == [False, True, False, False]
    assert found.cycles[1].period_ns is None


def test_work_that_does_not_repeat_is_reported_and_not_forced(tmp_path: Path) -> None:
    made = Cycles()
    for layers in (2, 9, 4, 13, 6, 20):
        plain_cycles(made, 1, layers)
    found = cycles_of(made, tmp_path)
    assert found.irregular is not None
    assert "decode at batch 1 does not repeat" in found.irregular


def test_a_trace_without_model_work_has_no_cycle(tmp_path: Path) -> None:
    made = Cycles()
    made.work((ARGMAX,), graph=False)
    assert cycles_of(made, tmp_path).irregular == "no forward of a target model was recognised"
