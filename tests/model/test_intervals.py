"""How wide intervals are, and what narrows them: facts, and cycles alone where cycles are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.model.made_fits import cycle, fit, together, traced
from tests.model.made_runs import configuration, inspection, run, sweep
from toolkit.model.cycle_time import CycleForecast
from toolkit.model.intercept import possible
from toolkit.schema.cost import CostModel
from toolkit.schema.inspection import DraftStep, Inspection


def width(forecast: CycleForecast) -> float:
    assert forecast.value is not None and forecast.lo is not None and forecast.hi is not None
    return (forecast.hi - forecast.lo) / forecast.value


def batches(*pairs: tuple[int, float]) -> CostModel:
    """Return a fit of plain, 1, 3 and 5 steps at batches whose cycles are so many times the first's."""
    steps = {0: 10_000.0, 1: 12_000.0, 3: 13_000.0, 5: 14_000.0}
    return fit(
        together(
            *(sweep(*((k, us * times) for k, us in steps.items()), batch=batch) for batch, times in pairs)
        )
    )


def test_between_two_batches_a_cycle_lies_between_theirs() -> None:
    flat, steep = batches((1, 1.0), (16, 1.04)), batches((1, 1.0), (16, 3.0))
    assert width(cycle(flat, 3, 4)) < 0.15
    assert width(cycle(steep, 3, 4)) > 0.4
    for model in (flat, steep):
        least, most = cycle(model, 3, 1), cycle(model, 3, 16)
        found = cycle(model, 3, 4)
        assert found.lo is not None and found.hi is not None and least.lo is not None and most.hi is not None
        assert least.lo <= found.lo and found.hi <= most.hi


def test_below_all_batches_a_cycle_is_no_longer_than_at_the_least_of_them() -> None:
    model = batches((4, 1.0), (8, 1.05))
    found, least = cycle(model, 3, 1), cycle(model, 3, 4)
    assert found.hi is not None and least.hi is not None and found.value is not None
    assert found.hi <= least.hi
    assert width(found) < 0.2
    assert width(cycle(batches((4, 1.0), (8, 1.6)), 3, 1)) > 0.5


def test_a_phase_that_misses_the_fit_does_not_widen_cycles_that_meet_it() -> None:
    """Single draft forwards of 200 us by one run and 300 by the next, whose cycles are on one line."""

    def steps_of(us: float, runs: Inspection) -> Inspection:
        (one,) = runs.runs
        (found,) = one.configurations
        forwards = tuple(DraftStep(forward=i + 1, median_us=us) for i in range((found.num_steps or 1) - 1))
        return inspection(replace(one, configurations=(replace(found, draft_steps=forwards),)))

    even = [traced(steps, batch) for steps in (2, 3, 5, 7) for batch in (1, 4)]
    odd = [steps_of(300.0 if number % 2 else 130.0, one) for number, one in enumerate(even)]
    good, bad = fit(together(*even)), fit(together(*odd))
    assert bad.groups[0].noise.speculative_spread < 2 * good.groups[0].noise.speculative_spread
    assert width(cycle(bad, 4, 2)) < 2 * width(cycle(good, 4, 2))


def test_two_step_counts_promise_no_slope_by_which_none_would_undercut_plain_decoding() -> None:
    """1 and 2 steps leave 8 to their noise; a plain step of nearly the line's own start bounds it."""
    pairs = ((1, 11_000.0), (2, 12_000.0))
    free, held = fit(sweep(*pairs)), fit(sweep((0, 9_900.0), *pairs))
    top = [cycle(model, 8).hi or 0.0 for model in (free, held)]
    assert top[1] < 0.93 * top[0]
    assert cycle(held, 8).value == pytest.approx(18_000, rel=1e-2)


def test_refits_that_cannot_be_are_replaced_by_others_that_can() -> None:
    fact = (np.array([1.0, -1.0]), 0.0)
    draws = np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 1.0]])
    others = np.array([[1.0, 5.0], [4.0, 1.0]])
    found = possible([fact], np.array([2.0, 1.0]), draws, lambda count: others)
    assert found.tolist() == [[2.0, 1.0], [4.0, 1.0], [3.0, 1.0]]
    against = possible([fact], np.array([1.0, 2.0]), draws, lambda count: others)
    assert against is draws  # the data contradicts the fact


def test_a_run_s_own_spread_is_measured_by_its_replicates() -> None:
    runs = [run(f"k3 {n}", configuration(3, us)) for n, us in enumerate((12_000.0, 13_000.0, 12_500.0))]
    model = fit(
        inspection(*runs, run("k1", configuration(1, 11_000.0)), run("k5", configuration(5, 14_000.0)))
    )
    assert 0.02 < (model.groups[0].noise.speculative_run_spread or 0.0) < 0.05
