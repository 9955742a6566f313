"""Which figures a result has: a name for the file of each, and how to draw it. Loads no matplotlib."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from toolkit import figures
from toolkit.figures.comparison import comparisons
from toolkit.figures.positions import with_positions
from toolkit.schema.calibration import Calibration
from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.forecast import Forecast
from toolkit.schema.inspection import Configuration, Inspection, RunReport
from toolkit.schema.report import ReportFacts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORTH_A_FIGURE = 0.1  # of the cycles of the run's largest configuration
CALIBRATION_NAMES = ("allreduce-latency",)  # known before anything is measured
MOST_CYCLES = 8  # figures of single cycles: a folder of a hundred runs would fill the other folder


@dataclass(frozen=True, slots=True)
class Drawing:
    """One figure to be: `name` is that of its files, without an ending."""

    name: str
    draw: Callable[[], Figure]


def inspection_drawings(inspection: Inspection) -> list[Drawing]:
    """Return cycles of the first runs with phases, each comparison with plain decoding, and acceptance."""
    found = []
    for run, cell in _with_phases(inspection)[:MOST_CYCLES]:
        several = sum(bool(one.ranks) for one in run.configurations) > 1
        load = f"-k{cell.num_steps}-b{cell.batch_size}-c{cell.context_tokens}" if several else ""
        found.append(Drawing(f"cycle-{run.run}{load}", partial(figures.cycle_figure, run, cell)))
    for compared in comparisons(inspection):
        run, cell = compared.plain
        name = f"against-plain-{_server(run)}-b{cell.batch_size}"
        found.append(Drawing(name, partial(figures.against_plain_figure, compared)))
    for measured in with_positions(inspection):
        name = f"acceptance-{_server(measured[0][0])}"
        found.append(Drawing(name, partial(figures.acceptance_figure, measured)))
    for run in inspection.runs:
        if run.calibration is not None:
            found += calibration_drawings(run.calibration)
    return _named_apart(found)


def left_out_cycles(inspection: Inspection) -> int:
    """Return how many configurations with phases get no figure of their own."""
    return max(0, len(_with_phases(inspection)) - MOST_CYCLES)


def fit_drawings(model: CostModel) -> list[Drawing]:
    """Return fitted against measured for each group that has both."""
    return _named_apart(
        [
            Drawing(f"fitted-{_server(group)}", partial(figures.fitted_figure, group))
            for group in model.groups
            if any(cell.cycle_us is not None and cell.fitted_us is not None for cell in group.cells)
        ]
    )


def forecast_drawings(forecast: Forecast, by_batch: Sequence[Forecast] = ()) -> list[Drawing]:
    """Return the figures that a forecast has; `by_batch` are forecasts of its server at several batches."""
    found = []
    if any(one.tok_s.lo is not None for one in forecast.candidates):
        found.append(Drawing("throughput", partial(figures.throughput_figure, forecast)))
    if any(one.accept_length for one in forecast.break_even_accept_length):
        found.append(Drawing("accept-length-map", partial(figures.accept_length_map_figure, forecast)))
    if len(by_batch) > 1:
        found.append(Drawing("batch-map", partial(figures.batch_map_figure, by_batch)))
    if forecast.draft_tp.sizes:
        found.append(Drawing("draft-tp", partial(figures.draft_tp_figure, forecast)))
    return found


def report_drawings(facts: ReportFacts) -> list[Drawing]:
    """Return the figures of a report page: those of its runs, its fit and the forecast of each group.

    Where no acceptance is known a forecast's is supposed, and what depends on it is left out.
    """
    found = inspection_drawings(facts.inspection)
    found += fit_drawings(facts.model) if facts.model is not None else []
    for answer in facts.answers:
        if answer.forecast is None:
            continue
        found += [
            Drawing(f"{one.name}-{_server(answer.group)}", one.draw)
            for one in forecast_drawings(answer.forecast)
            if not (answer.length_supposed and one.name == "throughput")
        ]
    return _named_apart(found)


def calibration_drawings(calibration: Calibration) -> list[Drawing]:
    """Return the latency of all-reduces, where the host has any."""
    if not any(one.op == "all_reduce" for one in calibration.collectives):
        return []
    return [Drawing(CALIBRATION_NAMES[0], partial(figures.allreduce_figure, calibration))]


def _with_phases(inspection: Inspection) -> list[tuple[RunReport, Configuration]]:
    return [
        (run, cell)
        for run in inspection.runs
        for cell in run.configurations
        if any(set(rank.phases) - {"gap"} for rank in cell.ranks)
        and cell.cycles >= _WORTH_A_FIGURE * max(one.cycles for one in run.configurations)
    ]


def _server(run: RunReport | GroupModel) -> str:
    tp = f"tp{run.tp_size}" if run.tp_size else None
    return "-".join(str(part) for part in (run.engine, tp) if part) or "server"


def _named_apart(found: Sequence[Drawing]) -> list[Drawing]:
    """Return drawings with names that are safe as files; the second of a name gets a -2."""
    counts: dict[str, int] = {}
    named = []
    for one in found:
        safe = re.sub(r"[^\w.-]+", "_", one.name)[:120].strip("._") or "figure"
        counts[safe] = counts.get(safe, 0) + 1
        named.append(Drawing(safe if counts[safe] == 1 else f"{safe}-{counts[safe]}", one.draw))
    return named
