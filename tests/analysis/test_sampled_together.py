"""Ranks that look at different things in one cycle hold each other up."""

from __future__ import annotations

from toolkit.analysis.cells.sampled_together import sampled_together
from toolkit.schema.spans import RankSpans, SpanCycle

_CYCLE_NS = 5_000_000


def rank(
    number: int,
    graphs: set[int],
    collectives: set[int],
    late_ns: int = 0,
    offset: int = 0,
    stage_us: float = 3050.0,
) -> RankSpans:
    cycles = [
        SpanCycle(
            cycle=at + offset,
            t_ns=at * _CYCLE_NS + late_ns,
            stage_us={"verify": stage_us},
            graph_us={"verify": 3000.0} if at in graphs else None,
            collectives_us={"verify": (9.0, 9.0)} if at in collectives else None,
        )
        for at in range(50)
    ]
    return RankSpans(source="", tp_rank=number, clock="", dropped=0, cycles=tuple(cycles))


def graphs_of(spans: RankSpans) -> list[int]:
    return [at for at, cycle in enumerate(spans.cycles) if cycle.graph_us]


def test_graph_times_of_cycles_in_which_another_rank_timed_collectives_are_left_out() -> None:
    ranks, note = sampled_together([rank(0, {5, 25}, {15}), rank(1, {5}, {25}, late_ns=90_000)])
    assert [graphs_of(one) for one in ranks] == [[5], [5]]
    assert ranks[0].cycles[15].collectives_us, "the other rank looked at nothing there"
    assert ranks[1].cycles[25].collectives_us is None
    assert note and note.startswith("2 of 5 sampled cycles")


def test_the_same_cycle_is_found_by_its_time_where_numbers_differ() -> None:
    ranks, note = sampled_together([rank(0, {5, 25}, set()), rank(1, {5}, {25}, late_ns=-90_000, offset=3)])
    assert [graphs_of(one) for one in ranks] == [[5], [5]]
    assert note and note.startswith("2 of 4")


def test_a_phase_longer_in_its_graph_than_around_the_call_was_disturbed_as_well() -> None:
    first = rank(0, {5, 25}, set(), stage_us=2500.0)
    ranks, note = sampled_together([first, rank(1, {5}, {25}, stage_us=3050.0)])
    assert [graphs_of(one) for one in ranks] == [[], [5]]
    assert note and note.startswith("3 of 4 sampled cycles")


def test_ranks_that_look_at_the_same_thing_keep_all_readings() -> None:
    given = [rank(number, {5, 25}, {15, 35}, late_ns=number * 40_000) for number in range(4)]
    ranks, note = sampled_together(given)
    assert ranks == given and note is None


def test_one_rank_or_a_rank_without_cycles_is_left_alone() -> None:
    empty = RankSpans(source="", tp_rank=1, clock="", dropped=0, cycles=())
    for given in ([rank(0, {5}, set())], [rank(0, {5}, set()), empty]):
        assert sampled_together(given) == (given, None)
