"""Wire and wait of collectives that events timed, on spans whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.made_trace import Cycles, Engine, eagle_cycles
from toolkit.analysis.cells.span_collectives import Times, wire_us
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.ingest.traces.chrome import read_trace
from toolkit.report.inspect_text import inspection_text
from toolkit.schema.inspection import CollectiveReport, HealthCheck, Inspection, RunReport
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle

WIRE_US, PAIR_US, CHECK = 5.0, 1.5, "collectives agree in trace and spans"
ADDED_US = PAIR_US + 2.2  # and the ways from an event to a kernel and back


def taking_turns(ranks: int, places: int, wait_us: float, *, cycles: int = 200, seed: int = 0) -> list[Times]:
    """Return durations by rank: in each cycle and place one rank, drawn anew, is last and the others wait.

    Every rank's cycles are drawn apart, as no two ranks sample the same ones.
    """
    random = np.random.default_rng(seed)
    made = []
    for rank in range(ranks):
        last = random.integers(ranks, size=(cycles, places)) == rank
        noise = random.normal(0.0, 0.1, size=(cycles, places))
        made.append(WIRE_US + noise + np.where(last, 0.0, random.exponential(wait_us, size=last.shape) + 2.0))
    return made


def smallest_median(by_rank: Sequence[Times]) -> float:
    return float(np.median(np.min([np.median(own, axis=0) for own in by_rank], axis=0)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_wire_is_found_though_the_ranks_take_turns_in_being_late(ranks: int) -> None:
    made = taking_turns(ranks, 9, 40.0)
    assert float(np.median(wire_us(made))) == pytest.approx(WIRE_US, abs=0.1)


def test_the_smallest_of_the_medians_would_hold_waiting_where_ranks_take_turns() -> None:
    assert smallest_median(taking_turns(8, 9, 40.0)) > 4 * WIRE_US


@pytest.mark.parametrize("late", [0, 1, 3])
def test_the_wire_is_that_of_the_rank_that_is_always_late(late: int) -> None:
    random = np.random.default_rng(1)
    made = [WIRE_US + random.normal(0, 0.1, (60, 5)) + (0.0 if rank == late else 30.0) for rank in range(4)]
    assert wire_us(made) == pytest.approx(np.full(5, WIRE_US), abs=0.05)


def test_a_rank_that_sampled_less_weighs_no_less() -> None:
    many, few = np.full((900, 1), 35.0), np.full((9, 1), WIRE_US)
    assert wire_us([many, few]) == pytest.approx([WIRE_US])


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_where_nobody_waits_the_wire_is_what_a_trace_calls_so(ranks: int) -> None:
    random = np.random.default_rng(2)
    made = [random.normal(WIRE_US, 0.2, (400, 20)) for _ in range(ranks)]
    traced = float(np.median(np.min(made, axis=0)))  # shortest over the ranks, median over instances
    assert float(np.median(wire_us(made))) == pytest.approx(traced, abs=0.06)


def test_the_wire_of_no_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="no ranks"):
        wire_us([])


DURATIONS = st.integers(1, 4).flatmap(
    lambda places: st.lists(
        st.lists(st.lists(st.floats(0, 1e6), min_size=places, max_size=places), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
    )
)


@given(made=DURATIONS, seed=st.integers(0, 99))
def test_the_wire_is_one_of_the_durations_no_higher_than_any_median_whatever_the_order(
    made: list[list[list[float]]], seed: int
) -> None:
    by_rank = [np.array(own) for own in made]
    wire = wire_us(by_rank)
    assert all((wire <= np.median(own, axis=0)).all() for own in by_rank)
    assert all(wire[place] in np.concatenate(by_rank)[:, place] for place in range(len(wire)))
    random = np.random.default_rng(seed)
    shuffled = [by_rank[at][random.permutation(len(by_rank[at]))] for at in random.permutation(len(by_rank))]
    assert (wire_us(shuffled) == wire).all()


def spans(tp_rank: int, durations: Times, phase: str = "verify", **changed: Any) -> RankSpans:
    """Spans that timed `durations` (cycles, places) in every third cycle, their events' time on top."""
    cycles = [
        SpanCycle(
            cycle=at,
            t_ns=at * 9_000_000,
            batch_size=1,
            num_steps=3,
            num_draft_tokens=4,
            stage_us={"verify": 5000.0},
        )
        for at in range(3 * len(durations))
    ]
    for at, row in enumerate(durations):
        timed = {phase: tuple(float(value) + ADDED_US for value in row)}
        place = 3 * at + tp_rank % 3
        cycles[place] = replace(cycles[place], collectives_us=timed)
    fields: dict[str, Any] = {"event_pair_us": PAIR_US, "cycles": tuple(cycles)}
    return RankSpans(source="s", tp_rank=tp_rank, clock="host", dropped=0, **{**fields, **changed})


def report(*ranks: RankSpans, info: RunInfo | None = None, **parts: Any) -> RunReport:
    info = info or RunInfo(tp_size=2, num_steps=3, num_draft_tokens=4, batch_size=1, topk=1)
    return inspect_recording(Recording(name="run", source="run", info=info, spans=ranks, **parts))


def only(found: RunReport) -> CollectiveReport:
    (cell,) = found.configurations
    (collectives,) = cell.collectives
    return collectives


def check(found: RunReport, name: str) -> HealthCheck | None:
    return next((one for one in found.health if one.check == name), None)


def late_first(wait_us: float, places: int = 66) -> Times:
    """Durations of a rank that waits at the first place alone."""
    made = np.full((12, places), WIRE_US)
    made[:, 0] += wait_us
    return made


def test_spans_of_two_ranks_give_wire_wait_and_count_of_a_phase() -> None:
    found = report(spans(0, late_first(300.0)), spans(1, late_first(0.0)))
    collectives = only(found)
    assert (collectives.phase, collectives.op, collectives.algorithm) == ("verify", "collective", None)
    assert (collectives.per_cycle, collectives.group_size, collectives.source) == (66, 2, "spans")
    assert collectives.wire_us == pytest.approx(WIRE_US)
    assert collectives.wait_us_per_cycle == pytest.approx(150.0)
    assert collectives.first_wait_us == pytest.approx(150.0)
    assert collectives.first_wait_max_us == pytest.approx(300.0)
    assert collectives.matched_fraction is None
    waits = [rank.phases["verify"].wait_us for rank in found.configurations[0].ranks]
    assert waits == pytest.approx([300.0, 0.0])
    totals = [rank.phases["verify"].collectives_us for rank in found.configurations[0].ranks]
    assert totals == pytest.approx([66 * WIRE_US + 300, 66 * WIRE_US])
    assert "spans" in found.configurations[0].sources


def test_the_wait_of_a_cycle_is_that_which_was_made_where_ranks_take_turns() -> None:
    made = taking_turns(2, 66, 40.0)
    truth = 66 * (40.0 + 2.0) / 2  # at each place one of two ranks waits
    found = only(report(*(spans(rank, own) for rank, own in enumerate(made))))
    assert found.wait_us_per_cycle == pytest.approx(truth, rel=0.05)


def test_a_gather_among_all_reduces_does_not_move_their_wire() -> None:
    made = np.full((12, 4), WIRE_US)
    made[:, 3] = 4 * WIRE_US
    assert only(report(spans(0, made), spans(1, made))).wire_us == pytest.approx(WIRE_US)


def test_collectives_outside_graphs_need_no_pair_time_and_lose_none() -> None:
    made = [spans(rank, late_first(0.0), event_pair_us=None) for rank in (0, 1)]
    eager = [
        replace(rank, cycles=tuple(replace(cycle, graph={"verify": False}) for cycle in rank.cycles))
        for rank in made
    ]
    assert not any("pair of events" in note for note in report(*eager).warnings)
    assert any("pair of events" in note for note in report(*made).warnings)
    assert only(report(*eager)).wire_us == pytest.approx(WIRE_US + ADDED_US)


def test_no_collective_takes_less_than_nothing() -> None:
    made = np.full((12, 3), 0.5)
    found = only(report(*(spans(rank, made, event_pair_us=9.0) for rank in (0, 1))))
    assert (found.wire_us, found.wait_us_per_cycle) == (0.0, 0.0)


def test_one_rank_alone_gives_counts_and_its_total_but_neither_wire_nor_wait() -> None:
    found = report(spans(0, late_first(300.0)))
    collectives = only(found)
    assert collectives.per_cycle == 66
    assert (collectives.wire_us, collectives.wait_us_per_cycle, collectives.first_wait_us) == (None,) * 3
    phase = found.configurations[0].ranks[0].phases["verify"]
    assert (phase.wait_us, phase.collectives_us) == (None, pytest.approx(66 * WIRE_US + 300))
    said = check(found, "ranks that timed collectives")
    assert said is not None and said.ok is False
    assert said.detail == (
        "rank 1 of 2 timed no collective: wire and wait of collectives need the spans of two ranks or more"
    )
    assert said.detail in found.warnings


def test_a_missing_rank_of_four_makes_the_wire_an_upper_bound() -> None:
    info = RunInfo(tp_size=4, num_steps=3, batch_size=1)
    found = report(*(spans(rank, late_first(0.0)) for rank in (0, 1, 3)), info=info)
    said = check(found, "ranks that timed collectives")
    assert said is not None and said.ok is False
    assert "rank 2 of 4" in said.detail and "upper bound" in said.detail


def test_lists_of_another_length_are_left_out_and_counted() -> None:
    odd = SpanCycle(cycle=900, t_ns=9, batch_size=1, num_steps=3, collectives_us={"verify": (1.0,) * 7})
    first, second = spans(0, late_first(0.0)), spans(1, late_first(0.0))
    found = report(replace(first, cycles=(*first.cycles, odd)), second)
    assert only(found).per_cycle == 66
    assert only(found).wire_us == pytest.approx(WIRE_US)
    assert any("1 of 25 lists of collectives timed in verify are left out" in text for text in found.warnings)


def test_an_unknown_time_of_an_empty_pair_is_told_and_nothing_is_subtracted() -> None:
    found = report(*(spans(rank, late_first(0.0), event_pair_us=None) for rank in (0, 1)))
    assert only(found).wire_us == pytest.approx(WIRE_US + ADDED_US)
    assert any("2 ranks do not say what a pair of events takes" in text for text in found.warnings)


def test_spans_without_timed_collectives_say_nothing_of_them() -> None:
    plain = spans(0, late_first(0.0))
    found = report(replace(plain, cycles=tuple(replace(c, collectives_us=None) for c in plain.cycles)))
    assert found.configurations[0].collectives == ()
    assert check(found, "ranks that timed collectives") is None
    assert not found.warnings


def test_a_phase_without_collectives_has_no_report() -> None:
    found = report(*(spans(rank, np.zeros((5, 0)), "draft") for rank in (0, 1)))
    assert found.configurations[0].collectives == ()


def test_the_group_of_a_draft_that_was_asked_to_run_on_fewer_ranks_is_not_known() -> None:
    info = RunInfo(tp_size=2, draft_tp=1, num_steps=3, batch_size=1)
    assert only(report(spans(0, late_first(0.0), "draft"), info=info)).group_size is None
    assert only(report(spans(0, late_first(0.0), "verify"), info=info)).group_size == 2


def test_times_inside_graphs_need_not_be_of_the_same_cycles() -> None:
    """Each kind is sampled in cycles, and on ranks, of its own."""
    cycles = list(spans(0, late_first(0.0)).cycles)
    cycles[1] = replace(cycles[1], graph_us={"draft": 500.0})
    cycles[2] = replace(cycles[2], draft_steps_us=(190.0, 191.0))
    first = replace(spans(0, late_first(0.0)), cycles=tuple(replace(c, draft_steps_us=None) for c in cycles))
    second = replace(spans(1, late_first(0.0)), cycles=tuple(cycles))
    (cell,) = report(first, second).configurations
    assert [step.median_us for step in cell.draft_steps] == [190.0, 191.0]
    assert cell.draft_steps_source == "spans"  # though rank 0 timed none
    draft = cell.ranks[0].phases["draft"].graph_us
    assert draft is not None and draft.median == 500.0


def test_the_text_marks_what_is_from_spans() -> None:
    text = inspection_text(Inspection(runs=(report(spans(0, late_first(9.0)), spans(1, late_first(0.0))),)))
    row = next(line for line in text.splitlines() if "from spans" in line and "collective" in line)
    assert row.split() == ["verify", "collective", "from", "spans", "2", "66", "5.0", "4.5", "9.0"]


@pytest.fixture
def traced(tmp_path: Path) -> tuple[Any, ...]:
    paths = eagle_cycles(Cycles(2), 8, Engine(steps=3)).write(tmp_path)
    return tuple(map(read_trace, paths))


def test_the_trace_wins_in_each_phase_it_has_and_spans_fill_the_others(traced: tuple[Any, ...]) -> None:
    both = [
        replace(
            spans(rank, late_first(0.0)),
            cycles=tuple(
                replace(
                    c,
                    collectives_us={"verify": (5.0,) * 9, "decode": (6.0,) * 9} if c.cycle % 3 == 0 else None,
                )
                for c in spans(rank, late_first(0.0)).cycles
            ),
        )
        for rank in (0, 1)
    ]
    (cell,) = report(*both, traces=traced).configurations
    sources = {(c.phase, c.source) for c in cell.collectives}
    assert ("verify", "trace") in sources and ("verify", "spans") not in sources
    assert ("decode", "spans") in sources
    alone = report(traces=traced).configurations[0]
    assert cell.ranks[0].phases["verify"].wait_us == alone.ranks[0].phases["verify"].wait_us


def test_totals_of_trace_and_spans_are_compared_by_phase_and_rank(traced: tuple[Any, ...]) -> None:
    alone = report(traces=traced).configurations[0]
    totals = [rank.phases["verify"].collectives_us or 0.0 for rank in alone.ranks]
    assert min(totals) > 0

    def compared(times: float) -> HealthCheck:
        ranks = [spans(rank, np.full((9, 10), times * totals[rank] / 10)) for rank in (0, 1)]
        said = check(report(*ranks, traces=traced), CHECK)
        assert said is not None
        return said

    assert compared(1.2).ok is True
    assert "(ratio 1.20)" in compared(1.2).detail
    assert compared(5.0).ok is False
    assert compared(0.2).ok is None
    assert "profiler lengthens the waits" in compared(0.2).detail


def test_what_only_one_source_timed_is_not_compared(traced: tuple[Any, ...]) -> None:
    assert check(report(traces=traced), CHECK) is None
    assert check(report(spans(0, late_first(0.0))), CHECK) is None
