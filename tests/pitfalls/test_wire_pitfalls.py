"""Wire times of messages of other sizes (docs/pitfalls.md, 14), on made data whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.made_fits import cycle, fit
from tests.model.made_runs import allreduce, configuration, inspection, ranks, run
from toolkit.model.collective_costs import scaled
from toolkit.model.message_size import doubt_us, wire_at
from toolkit.schema.cost import CollectiveCost, CostModel, SizedWire
from toolkit.schema.inspection import RunReport

FORWARDS = 65


def wire_us(tokens: int, *, switch: int | None = None) -> float:
    """Return 2 us and a tenth for each token; from `switch` tokens on a two-shot kernel, 3 us more."""
    return 2.0 + 0.1 * tokens + (3.0 if switch is not None and tokens >= switch else 0.0)


def true_us(steps: int, batch: int, *, switch: int | None = None) -> float:
    tokens = batch * (steps + 1)
    return 4000.0 + 10 * tokens + 250.0 * steps + FORWARDS * wire_us(tokens, switch=switch)


def traced(steps: int, batch: int, *, switch: int | None = None) -> RunReport:
    tokens = batch * (steps + 1)
    wire = wire_us(tokens, switch=switch)
    verify = allreduce("verify", FORWARDS, wire)
    if switch is not None and tokens >= switch:
        verify = replace(verify, algorithm="two_shot")
    us = true_us(steps, batch, switch=switch)
    draft = {"draft": 250.0 * (steps - 1)} if steps > 1 else {}
    own = ranks(verify=us - 250.0 * steps, draft_extend=250.0, **draft)
    return run(
        f"k{steps}b{batch}",
        configuration(steps, us, batch_size=batch, ranks=own, collectives=(verify,)),
        tp_size=2,
    )


def sweep(*batches: int, switch: int | None = None) -> CostModel:
    return fit(inspection(*(traced(steps, batch, switch=switch) for batch in batches for steps in (1, 3, 5))))


def test_wire_time_grows_with_the_message() -> None:
    """Pitfall 14: pooled, an all-reduce would take as long at batch 1 as at batch 16, 3 % of a cycle off."""
    model = sweep(1, 16)
    pooled = model.groups[0].collectives[0].wire_us
    assert FORWARDS * (wire_us(64) - pooled) > 0.03 * true_us(3, 16)
    for batch in (1, 2, 4, 8, 16):
        for steps in (1, 3, 5):
            assert cycle(model, steps, batch).value == pytest.approx(true_us(steps, batch), rel=3e-3)


def test_a_switch_of_algorithm_between_the_sizes_measured_is_kept_and_doubted() -> None:
    """Pitfall 14: from 48 tokens on a two-shot kernel takes 3 us more."""
    model = sweep(1, 4, 16, switch=48)
    (verify,) = [cost for cost in model.groups[0].collectives if cost.phase == "verify"]
    assert {size.tokens: size.algorithm for size in verify.by_tokens}[24] == "one_shot_push"
    assert {size.tokens: size.algorithm for size in verify.by_tokens}[64] == "two_shot"
    assert wire_at(verify, 96) == pytest.approx(wire_us(96, switch=48))
    assert doubt_us(verify, 40) > 1.0 and doubt_us(verify, 16) == doubt_us(verify, 64) == 0.0


def test_beyond_the_sizes_measured_the_forecast_widens() -> None:
    """Pitfall 14: nobody knows where the next algorithm takes over."""
    one = CollectiveCost(phase="verify", op="all_reduce", per_forward=FORWARDS, wire_us=5.0)
    known = replace(one, by_tokens=(SizedWire(4, 2.4, "one_shot"), SizedWire(64, 8.4, "one_shot")))
    assert wire_at(known, 2) == 2.4 and wire_at(known, 34) == pytest.approx(5.4)
    assert wire_at(known, 128) == pytest.approx(14.8)
    assert [doubt_us(known, tokens) for tokens in (2, 34, 64)] == [0.0, 0.0, 0.0]
    assert doubt_us(known, 256) == pytest.approx(2 * doubt_us(known, 128)) and doubt_us(known, 128) > 4.0
    assert wire_at(one, 128) == 5.0 and doubt_us(one, 128) == 0.0
    (halved,) = scaled([known], None, 0.5)
    assert wire_at(halved, 64) == pytest.approx(4.2)
    (given,) = scaled([known], 3.0, None)
    assert {wire_at(given, tokens) for tokens in (4, 30, 64, 500)} == {3.0}
