"""Lost kernels still tell phases, wire and waits: by other ranks, the launch and the work before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.cross_rank import errors_of, made
from tests.made_trace import (
    ACCEPT,
    ALL_GATHER,
    ALL_REDUCES,
    ARGMAX,
    BASE_US,
    DRAFT,
    Cycles,
    Engine,
    eagle_cycles,
    target,
)
from toolkit.analysis.trace.alike import alike_groups
from toolkit.analysis.trace.consensus import usual_sequence
from toolkit.api import inspect_paths
from toolkit.schema.inspection import Configuration

Event = dict[str, Any]
FEW = settings(max_examples=10, deadline=None, derandomize=True)


def inspected(cycles: Cycles, folder: Path) -> Configuration:
    (run,) = inspect_paths(cycles.write(folder)).runs
    (cell,) = run.configurations
    return cell


def lose(cycles: Cycles, rank: int, which: Callable[[Event], bool], every: int) -> int:
    """Take every so-manieth event that is told out of a rank's trace; return how many that were."""
    events = cycles.ranks[rank].events
    gone = {id(event) for event in [event for event in events if which(event)][::every]}
    events[:] = [event for event in events if id(event) not in gone]
    return len(gone)


def phase_us(cell: Configuration, rank: int, name: str) -> float:
    found = cell.ranks[rank].phases[name].graph_us
    assert found is not None
    return found.median


@FEW
@given(
    ranks=st.sampled_from((2, 4, 8)),
    steps=st.integers(1, 7),
    kind=st.sampled_from(sorted(ALL_REDUCES)),
    seed=st.integers(0, 100_000),
)
def test_wire_and_waits_are_a_hundredth_off_at_most_whatever_half_a_percent_was_lost(
    ranks: int, steps: int, kind: str, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        how = {"lose": 0.005, "slow": seed % ranks, "all_reduce": kind, "seed": seed, "steps": steps}
        found = errors_of(*made(Path(folder), ranks=ranks, count=10, layers=5, **how))
    assert found.passed, found
    assert found.wire is not None
    assert found.wait is not None
    assert max(found.wire, found.wait) < 0.01, found


def test_a_phase_ends_when_the_other_ranks_leave_its_last_collective(tmp_path: Path) -> None:
    cycles = Cycles(ranks=2, clocks_us=90, drift_ppm=5)
    eagle_cycles(cycles, 15)
    calls = {e["args"]["correlation"] for e in cycles.ranks[1].events if e["name"] == "cudaGraphLaunch"}
    verifying = sorted(calls)[1::3]  # draft, verify, extend

    def closes(event: Event) -> bool:
        return event["name"] == ALL_GATHER and event["args"]["correlation"] in verifying

    assert lose(cycles, 1, closes, every=6) == 3
    cell = inspected(cycles, tmp_path)
    found = cell.ranks[1].phases["verify"].graph_us
    assert found is not None
    expected = [by_rank[1] for by_rank in cycles.truth["verify"]]
    assert found.mean == pytest.approx(sum(expected) / 15, abs=0.05)
    assert found.median == pytest.approx(median(expected), abs=0.05)


def test_a_phase_begins_as_long_after_its_launch_as_in_other_cycles(tmp_path: Path) -> None:
    cycles = Cycles(ranks=1)
    firsts: list[float] = []

    def verify() -> None:
        ((start, _),) = cycles.work(target(4), phase="verify")
        firsts.append(round(BASE_US + start, 3))

    for _ in range(15):
        cycles.named("step[TARGET_VERIFY bs=1]", verify)
        cycles.work((ARGMAX, ACCEPT), graph=False)
        cycles.named("draft_extend", lambda: cycles.work(DRAFT[:-1]))
        cycles.wait_for_gpu()
        cycles.host(40.0)
    assert lose(cycles, 0, lambda event: event["cat"] == "kernel" and event["ts"] in firsts, every=6) == 3
    found = inspected(cycles, tmp_path).ranks[0].phases["verify"].graph_us
    assert found is not None
    assert found.mean == pytest.approx(sum(by_rank[0] for by_rank in cycles.truth["verify"]) / 15, abs=0.05)


def test_node_ids_that_several_kernels_of_a_replay_bear_tell_nothing(tmp_path: Path) -> None:
    cycles = eagle_cycles(Cycles(ranks=2, lose=0.005), 12, Engine(steps=5))
    for rank in cycles.ranks:
        for event in rank.events:
            if event["cat"] == "kernel":
                event["args"]["graph node id"] = 1 + len(event["name"])
    rows = inspected(cycles, tmp_path).collectives
    counts = {(row.phase, row.op): row.per_cycle for row in rows}
    assert counts["draft", "all_reduce"] == 8
    assert counts["draft", "all_gather"] == 4
    assert all(row.wire_us == pytest.approx(3.0, abs=0.01) for row in rows)


def test_a_draft_of_several_layers_has_a_forward_for_each_step_in_its_extend(tmp_path: Path) -> None:
    cycles = Cycles(ranks=1)

    def extends() -> None:
        starts = [cycles.work((*DRAFT[:-1], f"head_{layer}")) for layer in range(3)]
        cycles.truth.setdefault("draft_extend", []).append([starts[-1][0][1] - starts[0][0][0]])

    for _ in range(8):
        cycles.named("step[TARGET_VERIFY bs=1]", lambda: cycles.work(target(4)))
        cycles.work((ARGMAX, ACCEPT), graph=False)
        cycles.named("draft_extend", extends)
        cycles.wait_for_gpu()
    cell = inspected(cycles, tmp_path)
    assert cell.num_steps == 3
    expected = median(by_rank[0] for by_rank in cycles.truth["draft_extend"])
    assert phase_us(cell, 0, "draft_extend") == pytest.approx(expected, abs=0.01)


def test_a_rank_whose_events_all_begin_at_once_is_compared_with_nobody(tmp_path: Path) -> None:
    cycles = eagle_cycles(Cycles(ranks=2), 6)
    for event in cycles.ranks[0].events:
        event["ts"] = 5
    (run,) = inspect_paths(cycles.write(tmp_path)).runs
    assert any(check.check == "ranks on one clock" and check.ok is False for check in run.health)


@FEW
@given(seed=st.integers(0, 10_000), graphs=st.integers(1, 6))
def test_replays_that_lost_a_tenth_are_of_their_graph(seed: int, graphs: int) -> None:
    chance = np.random.default_rng(seed)
    whole = [np.repeat(chance.integers(0, 9, 6) + 10 * number, 12) for number in range(graphs)]
    replays = [(number, whole[number]) for number in range(graphs) for _ in range(4)]
    replays += [
        (number, np.delete(whole[number], chance.choice(72, 7, replace=False))) for number in range(graphs)
    ]
    found = alike_groups([sequence for _, sequence in replays], 100)
    assert len(set(zip((number for number, _ in replays), found, strict=True))) == graphs


def test_occurrences_that_have_nothing_in_common_have_the_longest_for_their_usual_sequence() -> None:
    chance = np.random.default_rng(1)
    sequences = [chance.integers(0, 50, 400 + number) for number in range(8)]
    assert len(usual_sequence(sequences)) == 407


def test_kernels_whose_launch_is_not_known_are_told_apart_by_their_order(tmp_path: Path) -> None:
    cycles = eagle_cycles(Cycles(ranks=1), 8)
    for event in cycles.ranks[0].events:
        if event["cat"] == "kernel":
            event["args"]["correlation"] = 0
    cell = inspected(cycles, tmp_path)
    assert cell.cycles == 8
    expected = median(by_rank[0] for by_rank in cycles.truth["verify"])
    assert phase_us(cell, 0, "verify") == pytest.approx(expected, abs=0.01)
