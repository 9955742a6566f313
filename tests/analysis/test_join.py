"""Sources of one configuration are joined, named and never averaged."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.analysis.cells.cell_key import key_of
from toolkit.analysis.cells.join import join_cells
from toolkit.schema.inspection import (
    AcceptanceReport,
    Configuration,
    PhaseTime,
    RankReport,
    Spread,
    Throughput,
)


def spread(us: float) -> Spread:
    return Spread(median=us, p10=us, p90=us, mean=us, se=0.0, count=5)


def cell(source: str, cycle_us: float | None = None, **known: Any) -> Configuration:
    base: dict[str, Any] = {
        "batch_size": 1,
        "padded_batch_size": None,
        "num_steps": 3,
        "num_draft_tokens": 4,
        "topk": 1,
        "context_tokens": 300,
        "cycles": 5,
        "sources": (source,),
        "cycle_us": spread(cycle_us) if cycle_us else None,
        "cycle_source": source if cycle_us else None,
    }
    return Configuration(**{**base, **known})


def rank(busy: float, work: float | None = None, **phases: PhaseTime) -> RankReport:
    return RankReport(tp_rank=0, gpu_busy_fraction=busy, gpu_work_fraction=work or busy, phases=phases)


def joined(*cells: Configuration) -> list[Configuration]:
    return join_cells([{key_of(one): one} for one in cells])


def test_cells_that_agree_are_one_and_name_every_source() -> None:
    (one,) = joined(cell("spans", 8000.0), cell("log", 9000.0), cell("trace", 16000.0))
    assert one.sources == ("spans", "log", "trace")
    assert one.cycle_us == spread(8000.0)
    assert one.cycle_source == "spans"


def test_a_traced_cycle_gives_way_to_any_other() -> None:
    (one,) = joined(cell("trace", 16000.0), cell("client", 9000.0))
    assert (one.cycle_source, one.trace_inflation) == ("client", pytest.approx(16 / 9))


@pytest.mark.parametrize(
    "other", [{"batch_size": 4}, {"num_steps": 5}, {"context_tokens": 5000}, {"padded_batch_size": 2}]
)
def test_cells_that_differ_in_a_part_both_know_stay_apart(other: dict[str, Any]) -> None:
    first = cell("spans", 8000.0, padded_batch_size=1)
    assert len(joined(first, cell("log", 9000.0, **other))) == 2


def test_an_unknown_part_agrees_with_anything_and_is_filled() -> None:
    (one,) = joined(cell("log", 8000.0, num_steps=None, context_tokens=None), cell("trace", 9000.0))
    assert (one.num_steps, one.context_tokens) == (3, 300)


def test_times_of_a_phase_from_two_sources_stand_side_by_side() -> None:
    spans = cell("spans", 8000.0, ranks=(rank(0.5, draft=PhaseTime(stage_us=spread(1150.0))),))
    trace = cell("trace", 9000.0, ranks=(rank(0.5, draft=PhaseTime(graph_us=spread(490.0), kernels=84)),))
    (one,) = joined(spans, trace)
    draft = one.ranks[0].phases["draft"]
    assert (draft.graph_us, draft.stage_us, draft.kernels) == (spread(490.0), spread(1150.0), 84)


def test_shares_of_the_traced_cycle_become_shares_of_the_untraced_one() -> None:
    phases = {"verify": PhaseTime(graph_us=spread(4000.0)), "gap": PhaseTime(graph_us=spread(12000.0))}
    trace = cell("trace", 16000.0, ranks=(rank(0.25, **phases),), unattributed_fraction=0.01)
    (one,) = joined(cell("spans", 8000.0), trace)
    assert one.ranks[0].gpu_busy_fraction == 0.5
    assert one.unattributed_fraction == 0.02
    gap = one.ranks[0].phases["gap"].graph_us
    assert gap is not None
    assert gap.median == 4000.0


@pytest.mark.parametrize(
    ("source", "work", "bound"),
    [("spans", 0.9, "gpu"), ("spans", 0.8, "unknown"), ("spans", 0.5, "host"), ("trace", 0.5, "unknown")],
)
def test_what_sets_the_cycle_is_gpu_work_over_cycle_time(source: str, work: float, bound: str) -> None:
    (one,) = joined(cell(source, 8000.0, ranks=(rank(0.95, work),)))
    assert one.bound == bound


def test_counters_of_requests_are_preferred_to_a_rounded_log() -> None:
    log = AcceptanceReport(accept_length=2.2, cycles=100, se=0.1, rate=0.4, rate_kind="correct/proposed")
    client = AcceptanceReport(accept_length=2.17, cycles=90, requests=3, se=0.02)
    (one,) = joined(cell("log", 8000.0, acceptance=log), cell("client", 9000.0, acceptance=client))
    assert one.acceptance is not None
    assert (one.acceptance.accept_length, one.acceptance.se) == (2.17, 0.02)
    assert one.acceptance.rate_kind == "correct/proposed"


def test_throughput_follows_from_batch_length_and_mean_cycle() -> None:
    log = cell(
        "log",
        8000.0,
        batch_size=4,
        acceptance=AcceptanceReport(accept_length=2.0),
        throughput_tok_s=Throughput(measured=990.0, measured_by="log"),
    )
    (one,) = joined(log)
    assert (one.throughput_tok_s.from_cycle, one.throughput_tok_s.measured) == (1000.0, 990.0)
    (plain,) = joined(cell("log", 8000.0, num_steps=0))
    assert plain.throughput_tok_s.from_cycle == 125.0
    (unknown,) = joined(cell("log", 8000.0, num_steps=None))
    assert unknown.throughput_tok_s.from_cycle is None
