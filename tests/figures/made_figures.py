"""One of each figure, drawn from constructed records, and how to look into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.model.made_calibration import Host, calibration
from tests.model.made_runs import acceptance, configuration, inspection, ranks, run, spread, sweep
from toolkit import figures
from toolkit.api import check, fit, predict, predict_by_batch
from toolkit.schema.calibration import Calibration
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import DraftTpSize, Forecast, Interval, Reachable
from toolkit.schema.inspection import Configuration, Inspection, RankReport

PHASES = {"draft": 400.0, "verify": 4000.0, "sample": 50.0, "draft_extend": 250.0, "gap": 300.0}


def cycle_cell(**changed: object) -> Configuration:
    """Return a cycle of 5 ms of 3 steps, two ranks; rank 1 waits 100 us in its verify."""
    first = ranks(**PHASES)[0]
    verify = replace(first.phases["verify"], wait_us=100.0)
    second = RankReport(tp_rank=1, gpu_busy_fraction=None, phases={**first.phases, "verify": verify})
    fields: dict[str, object] = {"context_tokens": 320, "ranks": (first, second), **changed}
    return configuration(3, 5000.0, **fields)


def three_step_counts() -> Inspection:
    """Return plain decoding at 2 ms, and 1 and 3 steps at 3 and 5 ms with 1.5 and 3 tokens a cycle."""
    plain = run("k0", configuration(0, 2000.0, ranks=ranks(decode=1900.0, gap=100.0)))
    one = configuration(1, 3000.0, ranks=ranks(draft=100.0, verify=2500.0), acceptance=acceptance(1.5))
    three = cycle_cell(acceptance=acceptance(3.0, accept_by_position=(0.9, 0.7, 0.4)), context_tokens=None)
    return inspection(plain, run("k1", one), run("k3", three))


@cache
def model() -> CostModel:
    """Return the fit of a cycle that grows by half a millisecond a step, at three batch sizes."""
    pairs = ((0, 2000.0), (1, 3000.0), (2, 3500.0), (4, 4500.0), (6, 5500.0))
    runs = [sweep(*((steps, us + 40 * batch) for steps, us in pairs), batch=batch) for batch in (1, 2, 4)]
    return fit(inspection(*(one for part in runs for one in part.runs)))


@cache
def forecast() -> Forecast:
    return predict(model(), accept_length=2.5, at_num_draft_tokens=4, batch_size=1)


@cache
def undetermined() -> Forecast:
    """Return the forecast of a fit of one step count: all but 0 and 5 are ranges."""
    return predict(fit(sweep((0, 2000.0), (5, 5000.0))), accept_length=3.0, at_num_draft_tokens=6)


def host() -> Calibration:
    return calibration(Host(), sizes=(1, 2, 4))


def draft_tp_forecast() -> Forecast:
    """Return a forecast in which a draft on one GPU would gain 4 %."""
    found = forecast()
    size = DraftTpSize(
        draft_tp=1,
        draft_ms=Interval(value=0.6, lo=0.5, hi=0.7),
        cycle_ms=Interval(value=4.0, lo=3.9, hi=4.1),
        gain=Interval(value=0.04, lo=0.01, hi=0.07),
        weight_bytes=None,
        reachable=Reachable(engine="sglang", how="none", flags=""),
    )
    today = Interval(value=0.8, lo=0.7, hi=0.9)
    candidates = tuple(replace(one, draft_tp=2, draft_ms=today) for one in found.candidates)
    answer = replace(found.draft_tp, sizes=(size,), most_gain=0.2)
    return replace(found, candidates=candidates, draft_tp=answer)


def checked() -> Figure:
    return figures.checked_figure(check(model(), sweep((3, 4040.0), (5, 7000.0))))


EVERY: dict[str, Callable[[], Figure]] = {
    "cycle": lambda: figures.cycle_figure(run("made", cycle_cell()), cycle_cell()),
    "against_plain": lambda: figures.against_plain_figure(figures.comparisons(three_step_counts())[0]),
    "acceptance": lambda: figures.acceptance_figure(figures.with_positions(three_step_counts())[0]),
    "fitted": lambda: figures.fitted_figure(model().groups[0]),
    "checked": checked,
    "throughput": lambda: figures.throughput_figure(forecast()),
    "undetermined": lambda: figures.throughput_figure(undetermined()),
    "accept_length_map": lambda: figures.accept_length_map_figure(forecast()),
    "batch_map": lambda: figures.batch_map_figure(
        predict_by_batch(model(), accept_length=2.5, at_num_draft_tokens=4)
    ),
    "allreduce": lambda: figures.allreduce_figure(host()),
    "draft_tp": lambda: figures.draft_tp_figure(draft_tp_forecast()),
}


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


__all__ = ["EVERY", "spread", "texts"]
