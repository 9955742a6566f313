"""Traces of real engines: every kind of decoding shows its phases, with the kernels launched for them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolkit.analysis.trace.cycles import Phase, RankCycles, rank_cycles
from toolkit.api import inspect_paths
from toolkit.ingest.traces.chrome import read_trace
from toolkit.schema.inspection import Configuration
from toolkit.schema.trace import Annotations, RankTrace
from toolkit.units import us_from_ns

ROOT = Path(__file__).resolve().parents[2]
EXTRACTS = ROOT / "tests" / "data" / "real"
TRACES = sorted((ROOT / "traces").glob("2026-11-30-*/trace-TP-*.trace.json.gz"))

# Kernels of one occurrence of a phase, copies and sets not counted. Those of a graph are the kernels
# that share the correlation id of its launch; the rest was counted in the order of launch.
KINDS: dict[str, dict[str, int]] = {
    "sglang-eagle-k4": {"draft": 100, "verify": 452, "draft_extend": 22},
    "sglang-k2-gpu-only": {"draft": 37, "verify": 456, "draft_extend": 25},
    "sglang-k3-eager": {"draft": 34, "verify": 454, "draft_extend": 20},
    "sglang-k3-eager-launches": {"draft": 34, "verify": 454, "draft_extend": 20},
    "sglang-k3-tree": {"draft": 120, "verify": 456, "draft_extend": 45},
    "sglang-ngram-d8": {"verify": 452},
    "sglang-standalone-k3": {"draft": 131, "verify": 452, "draft_extend": 58},
    "vllm-draftmodel-k3": {"draft": 108, "verify": 385, "draft_extend": 60},
    "vllm-k3-eager": {"draft": 34, "verify": 393, "draft_extend": 29},
    "vllm-k3-eager-scopes": {"verify": 393, "draft_extend": 29},  # one cycle: no target follows its draft
}
# Draft forwards inside the draft pass. vLLM's first one is its extend, and counted where the host ranges
# say that the engine is vLLM.
DRAFT_FORWARDS = {
    "sglang-eagle-k4": 3,
    "sglang-k2-gpu-only": 1,
    "sglang-k3-eager": 2,
    "sglang-k3-eager-launches": 2,
    "sglang-k3-tree": 2,
    "sglang-ngram-d8": 0,
    "sglang-standalone-k3": 2,
    "vllm-draftmodel-k3": 3,
    "vllm-k3-eager": 2,
    "vllm-k3-eager-scopes": 1,
}
NAMES_VLLM = {"vllm-draftmodel-k3", "vllm-k3-eager-scopes"}


def extract(kind: str) -> Path:
    return EXTRACTS / f"{kind}.trace.json.gz"


@cache
def read(path: Path) -> tuple[RankTrace, RankCycles]:
    trace = read_trace(path)
    return trace, rank_cycles(trace)


def without_ranges(trace: RankTrace) -> RankTrace:
    none = np.zeros(0, dtype=np.int64)
    return replace(trace, annotations=Annotations(none.astype(np.int32), none, none, none))


def occurrences(found: RankCycles, name: str) -> list[Phase]:
    return [cycle.phases[name] for cycle in found.cycles if name in cycle.phases]


def kernel_count(trace: RankTrace, phase: Phase) -> int:
    names = [trace.names[i] for i in trace.kernels.name[phase.kernels]]
    return sum(not name.startswith(("Memcpy", "Memset")) for name in names)


def kernels_by_phase(trace: RankTrace, found: RankCycles) -> dict[str, set[int]]:
    names = {name for cycle in found.cycles for name in cycle.phases} - {"sample"}
    return {name: {kernel_count(trace, phase) for phase in occurrences(found, name)} for name in names}


def median_us(found: RankCycles, name: str) -> float:
    return us_from_ns(float(np.median([phase.end_ns - phase.start_ns for phase in occurrences(found, name)])))


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return found


def configuration(path: Path) -> Configuration:
    (run,) = inspect_paths([path]).runs
    (cell,) = (cell for cell in run.configurations if "trace" in cell.sources)
    return cell


def setting(path: Path) -> tuple[str, int, int, int]:
    """Return engine, tensor-parallel size, steps and batch of a recorded run, by its folder's name."""
    found = re.search(r"-(sglang|vllm)-.*-tp(\d)-k(\d)-b(\d)", path.parent.name)
    assert found
    return found[1], int(found[2]), int(found[3]), int(found[4])


def expected_kernels(engine: str, tp_size: int, steps: int) -> dict[str, int]:
    """Return the kernels of each phase of a recorded run: 32 layers in the target, one in the draft.

    An SGLang draft graph holds 33 kernels a forward (40 at TP 2, 41 at TP 4) and 4 around them.
    """
    if not steps:
        return {"decode": {("sglang", 1): 420, ("sglang", 2): 489, ("vllm", 1): 417}[engine, tp_size]}
    if engine == "vllm":
        phases = {"verify": 385, "draft_extend": 22 if steps == 1 else 26, "draft": 16 * (steps - 1)}
    elif tp_size == 1:
        phases = {"verify": 456, "draft_extend": 25, "draft": 33 * (steps - 1) + 4}
    elif tp_size == 2:
        phases = {"verify": 525, "draft_extend": 32, "draft": 40 * (steps - 1) + 4}
    else:
        phases = {"verify": 557, "draft_extend": 33, "draft": 41 * (steps - 1) + 4}
    return {name: count for name, count in phases.items() if name != "draft" or steps > 1}


def test_every_extract_is_small_and_has_its_expectation() -> None:
    files = sorted(EXTRACTS.glob("*.trace.json.gz"))
    assert {path.name.partition(".")[0] for path in files} == set(KINDS) == set(DRAFT_FORWARDS)
    assert max(path.stat().st_size for path in files) < 50_000
    assert len(TRACES) >= 25


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_decoding_shows_its_phases_with_their_kernels(kind: str) -> None:
    trace, found = read(extract(kind))
    assert kernels_by_phase(trace, found) == {name: {count} for name, count in KINDS[kind].items()}
    assert found.speculative
    assert found.irregular is None
    assert trace.damage == ()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_decoding_has_one_draft_forward_a_step(kind: str) -> None:
    steps = configuration(extract(kind)).draft_steps
    assert len(steps) == DRAFT_FORWARDS[kind]
    assert [step.forward for step in steps if step.is_extend] == ([1] if kind in NAMES_VLLM else [])


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_decoding_needs_the_engines_ranges_for_its_verify_time(kind: str) -> None:
    trace, found = read(extract(kind))
    unnamed = rank_cycles(without_ranges(trace))
    assert median_us(unnamed, "verify") == median_us(found, "verify")
    assert kernels_by_phase(trace, unnamed)["verify"] == {KINDS[kind]["verify"]}


def test_drafts_without_a_model_leave_no_draft_phase() -> None:
    _, found = read(extract("sglang-ngram-d8"))
    assert {name for cycle in found.cycles for name in cycle.phases} == {"verify", "sample"}
    assert len(found.cycles) == 3


@pytest.mark.parametrize("kind", ["sglang-k3-eager", "vllm-k3-eager"])
def test_without_graphs_no_phase_is_called_one(kind: str) -> None:
    _, found = read(extract(kind))
    assert not any(phase.graph for cycle in found.cycles for phase in cycle.phases.values())
    assert [len(phase.forwards) for phase in occurrences(found, "draft")] == [2]


def test_an_eager_trace_has_the_same_phases_with_and_without_its_launches() -> None:
    launched, alone = (read(extract(kind)) for kind in ("sglang-k3-eager-launches", "sglang-k3-eager"))
    assert kernels_by_phase(*launched) == kernels_by_phase(*alone)
    first = occurrences(alone[1], "verify")[0]  # the extract with launches holds this cycle
    assert median_us(launched[1], "verify") == us_from_ns(first.end_ns - first.start_ns)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name[:10]}")
def test_each_recorded_trace_shows_its_phases_with_their_kernels(path: Path) -> None:
    engine, tp_size, steps, batch = setting(path)
    trace, found = read(path)
    assert found.irregular is None
    assert found.speculative == (steps > 0)
    assert {cycle.batch_size for cycle in found.cycles} == {batch}
    assert not any(cycle.disturbed for cycle in found.cycles)
    expected = expected_kernels(engine, tp_size, steps)
    assert kernels_by_phase(trace, found) == {name: {count} for name, count in expected.items()}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name[:10]}")
def test_the_targets_kernels_are_those_of_the_largest_graph_launch(path: Path) -> None:
    """The count is taken from the file itself, by correlation id, without any of the toolkit's readers."""
    _, _, steps, _ = setting(path)
    launched = Counter(
        event["args"]["correlation"] for event in events(path) if event.get("cat") == "kernel"
    ).most_common()
    largest = launched[0][1]
    trace, found = read(path)
    targets = occurrences(found, "verify" if steps else "decode")
    assert len(targets) == sum(count == largest for _, count in launched)
    assert {kernel_count(trace, phase) for phase in targets} == {largest}


@pytest.mark.parametrize(
    "path", [p for p in TRACES if setting(p)[2]], ids=lambda path: f"{path.parent.name}/{path.name[:10]}"
)
def test_each_recorded_trace_has_one_draft_forward_a_step(path: Path) -> None:
    engine, _, steps, _ = setting(path)
    inside = steps - 1  # SGLang's extend yields the first draft
    _, found = read(path)
    if inside and engine == "vllm":
        assert {len(phase.forwards) for phase in occurrences(found, "draft")} == {inside}
    cell = configuration(path.parent)
    assert len(cell.draft_steps) == (steps if engine == "vllm" else inside)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name[:10]}")
def test_no_recorded_trace_needs_the_engines_ranges_for_its_target(path: Path) -> None:
    _, _, steps, _ = setting(path)
    name = "verify" if steps else "decode"
    trace, found = read(path)
    assert median_us(rank_cycles(without_ranges(trace)), name) == median_us(found, name)
