"""The bar of a cycle: as long as the line, each part as long as its share."""

from __future__ import annotations

from collections import Counter

from toolkit.report.cycle_bar import cycle_bar
from toolkit.schema.inspection import Configuration, PhaseTime, RankReport, Spread


def spread(median: float) -> Spread:
    return Spread(median=median, p10=median, p90=median, mean=median, se=0.0, count=1)


def drawn(cycle_us: float | None, **phases: float | None) -> list[str]:
    """Return the bar of one rank: the time of each phase on the GPU, None where only its call was timed."""
    times = {
        name: PhaseTime(graph_us=None if us is None else spread(us), stage_us=spread(1.0))
        for name, us in phases.items()
    }
    cell = Configuration(
        batch_size=1,
        padded_batch_size=1,
        num_steps=3,
        num_draft_tokens=4,
        topk=1,
        context_tokens=None,
        cycles=1,
        sources=("spans",),
        cycle_us=None if cycle_us is None else spread(cycle_us),
        cycle_source="spans",
        ranks=(RankReport(tp_rank=0, gpu_busy_fraction=None, phases=times),),
    )
    return cycle_bar(cell)


def test_each_part_is_as_long_as_its_share() -> None:
    bar, names = drawn(7000, draft=1000, verify=4000, draft_extend=500, gap=1500)
    assert Counter(bar.partition("▒")[1] + bar.partition("▒")[2]) == {"▒": 10, "█": 40, "░": 5, "·": 15}
    assert names.split("  ")[-1] == "· gap 21%"
    assert max(map(len, (bar, names))) <= 80


def test_a_short_part_is_seen_and_the_bar_stays_as_long() -> None:
    bar, _ = drawn(7000, draft=1, verify=6998, gap=1)
    assert bar.endswith("▒" + "█" * 68 + "·")


def test_what_no_time_on_the_gpu_covers_is_the_rest() -> None:
    bar, names = drawn(7000, draft=1000, verify=5000)
    assert "· rest 14%" in names
    assert bar.count("·") == 10


def test_a_phase_without_a_time_on_the_gpu_is_as_long_as_its_calls_and_marked() -> None:
    bar, names, mark = drawn(7000, verify=5000, draft=None)
    assert "▒ draft* " in names and "█ verify 71%" in names and mark.strip() == "* timed around its calls"
    assert bar.count("▒") == 1 and max(map(len, (bar, names))) <= 80


def test_calls_that_do_not_fit_the_cycle_are_not_drawn() -> None:
    _, names = drawn(5000.5, verify=5000, draft=None)
    assert "draft" not in names


def test_no_bar_where_the_phases_do_not_fit_the_cycle_or_the_target_has_no_time() -> None:
    assert drawn(5000, draft=1000, verify=5000) == []
    assert drawn(5000, draft=1000, verify=None) == []
    assert drawn(None, draft=1000, verify=5000) == []
