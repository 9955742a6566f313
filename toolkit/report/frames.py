"""Tables for notebooks: records as pandas frames, made last; the only module that imports pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

import pandas as pd

from toolkit.analysis.position_intervals import position_intervals
from toolkit.schema.calibration import Calibration
from toolkit.schema.cost import CheckReport, CostModel, FittedCell, GroupModel
from toolkit.schema.forecast import Forecast, Interval
from toolkit.schema.inspection import Configuration, Inspection, RankReport, RunReport, Spread
from toolkit.schema.recording import Recording

_CELL = ("num_steps", "batch_size", "context_tokens")  # what tells the configurations of a run apart
_GROUP = ("engine", "model", "gpu", "tp_size")
_SPREAD = tuple(field.name for field in fields(Spread))


def recorded_cycles(recordings: Iterable[Recording]) -> pd.DataFrame:
    """Return a row for each cycle that each rank's spans recorded; `t_ns` is the host's clock at its start.

    Times of phases are in columns such as `verify_stage_us` and `verify_graph_us`, which are different
    quantities; `correct_drafts` is the sum over the batch.
    """
    return pd.DataFrame(_recorded_cycles(recordings))


def _recorded_cycles(recordings: Iterable[Recording]) -> Iterator[dict[str, Any]]:
    plain = ("cycle", "t_ns", "batch_size", "padded_batch_size", "context_tokens", "num_steps")
    for recording in recordings:
        for rank in recording.spans:
            for cycle in rank.cycles:
                row: dict[str, Any] = {"run": recording.name, "tp_rank": rank.tp_rank}
                row |= {name: getattr(cycle, name) for name in plain}
                row |= {f"{phase}_stage_us": us for phase, us in (cycle.stage_us or {}).items()}
                row |= {f"{phase}_graph_us": us for phase, us in (cycle.graph_us or {}).items()}
                kept = cycle.correct_drafts
                yield {**row, "correct_drafts": None if kept is None else sum(kept)}


def cycles(inspection: Inspection) -> pd.DataFrame:
    """Return a row for each configuration: its cycle, acceptance and throughput."""
    return pd.DataFrame([_cycle_row(run, cell) for run, cell in _cells(inspection)])


def _cycle_row(run: RunReport, cell: Configuration) -> dict[str, Any]:
    acceptance, speed = cell.acceptance, cell.throughput_tok_s
    return {
        "run": run.run,
        **{name: getattr(run, name) for name in _GROUP},
        **{name: getattr(cell, name) for name in (*_CELL, "padded_batch_size", "num_draft_tokens", "topk")},
        "cycles": cell.cycles,
        "cycle_source": cell.cycle_source,
        **_spread("cycle", cell.cycle_us),
        "bound": cell.bound,
        "accept_length": acceptance.accept_length if acceptance else None,
        "accept_length_se": acceptance.se if acceptance else None,
        "acceptance_kind": run.acceptance_kind,
        "measured_tok_s": speed.measured,
        "from_cycle_tok_s": speed.from_cycle,
        "unattributed_fraction": cell.unattributed_fraction,
        "trace_inflation": cell.trace_inflation,
    }


def phases(inspection: Inspection) -> pd.DataFrame:
    """Return a row for each phase of each rank; `graph_us` and `stage_us` are different quantities."""
    return pd.DataFrame(
        [
            {**_place(run, cell), "tp_rank": rank.tp_rank, "phase": phase, **times}
            for run, cell in _cells(inspection)
            for rank in cell.ranks
            for phase, times in _phase_times(rank)
        ]
    )


def _phase_times(rank: RankReport) -> Iterator[tuple[str, dict[str, Any]]]:
    for phase, time in rank.phases.items():
        kept = ("busy_us", "wait_us", "collectives_us", "kernels", "graph")
        row = {**_spread("graph", time.graph_us), **_spread("stage", time.stage_us)}
        yield phase, row | {name: getattr(time, name) for name in kept}


def draft_forwards(inspection: Inspection) -> pd.DataFrame:
    """Return a row for each draft forward of a draft pass."""
    return pd.DataFrame(
        [
            {**_place(run, cell), **asdict(step), "source": cell.draft_steps_source}
            for run, cell in _cells(inspection)
            for step in cell.draft_steps
        ]
    )


def collectives(inspection: Inspection) -> pd.DataFrame:
    """Return a row for each kind of collective of each phase; waits are means over ranks."""
    return pd.DataFrame(
        [
            {**_place(run, cell), **asdict(report)}
            for run, cell in _cells(inspection)
            for report in cell.collectives
        ]
    )


def acceptance_by_position(inspection: Inspection) -> pd.DataFrame:
    """Return a row for each draft position: the share of cycles that kept it, with its 90 % interval.

    `hazard` is the chance that it is kept given that the one before was.
    """
    return pd.DataFrame(
        [row for run, cell in _cells(inspection) for row in _position_rows(_place(run, cell), cell)]
    )


def _position_rows(place: dict[str, Any], cell: Configuration) -> Iterator[dict[str, Any]]:
    if cell.acceptance is None:
        return
    before = 1.0
    intervals = position_intervals(cell.acceptance)
    pairs = zip(cell.acceptance.accept_by_position, intervals, strict=True)
    for position, (share, (lo, hi)) in enumerate(pairs, start=1):
        hazard = share / before if before else None
        yield {**place, "position": position, "share": share, "lo": lo, "hi": hi, "hazard": hazard}
        before = share


def health(inspection: Inspection) -> pd.DataFrame:
    """Return a row for each check of each run; `ok` None means that the data cannot tell."""
    return pd.DataFrame([{"run": run.run, **asdict(one)} for run in inspection.runs for one in run.health])


def candidates(forecasts: Forecast | Sequence[Forecast]) -> pd.DataFrame:
    """Return a row for each candidate of one or several forecasts, plain decoding's speed beside it.

    `gain` is its tokens per second over those of plain decoding less 1; `break_even` the accept length
    at which both are equal.
    """
    several = [forecasts] if isinstance(forecasts, Forecast) else forecasts
    return pd.DataFrame([row for forecast in several for row in _candidate_rows(forecast)])


def _candidate_rows(forecast: Forecast) -> Iterator[dict[str, Any]]:
    even = {(one.num_steps, one.draft_tp): one.accept_length for one in forecast.break_even_accept_length}
    plain = forecast.baseline.tok_s.value
    kept = (*_CELL, "num_draft_tokens", "topk", "draft_tp", "accept_length", "p_best", "determined")
    for place, one in enumerate(forecast.candidates):
        speed = one.tok_s.value
        yield {
            **{name: getattr(one, name) for name in kept},
            **_interval("cycle_ms", one.cycle_ms),
            **_interval("tok_s", one.tok_s),
            "plain_tok_s": plain,
            "gain": speed / plain - 1 if speed is not None and plain else None,
            "break_even": even.get((one.num_steps, one.draft_tp)),
            "recommended": place == forecast.recommendation.candidate,
            "extrapolated": "; ".join(one.extrapolated),
        }


def draft_tps(forecast: Forecast) -> pd.DataFrame:
    """Return a row for each other draft TP that could be forecast; `gain` is of tokens per second."""
    return pd.DataFrame(
        [
            {
                "draft_tp": one.draft_tp,
                **_interval("draft_ms", one.draft_ms),
                **_interval("cycle_ms", one.cycle_ms),
                **_interval("gain", one.gain),
                "weight_bytes": one.weight_bytes,
                "reachable": one.reachable.how,
            }
            for one in forecast.draft_tp.sizes
        ]
    )


def fitted_cells(model: CostModel) -> pd.DataFrame:
    """Return a row for each configuration of each fitted group: measured, fitted, and how far off."""
    return pd.DataFrame([_fitted_row(group, cell) for group in model.groups for cell in group.cells])


def _fitted_row(group: GroupModel, cell: FittedCell) -> dict[str, Any]:
    kept = (
        *_CELL,
        "padded_batch_size",
        "num_draft_tokens",
        "cycles",
        "cycle_us",
        "cycle_source",
        "fitted_us",
    )
    known = cell.cycle_us is not None and cell.fitted_us is not None
    return {
        **{name: getattr(group, name) for name in _GROUP},
        "run": cell.run,
        **{name: getattr(cell, name) for name in kept},
        "host_bound": cell.host_bound,
        "error": (cell.fitted_us or 0.0) / (cell.cycle_us or 1.0) - 1 if known else None,
    }


def terms(model: CostModel) -> pd.DataFrame:
    """Return a row for each coefficient of each group; `value` is None where the runs do not determine it."""
    rows = [(group, term) for group in model.groups for term in group.terms]
    return pd.DataFrame([{**{name: getattr(g, name) for name in _GROUP}, **asdict(t)} for g, t in rows])


def checked_cells(report: CheckReport) -> pd.DataFrame:
    """Return a row for each configuration that was predicted without being fitted."""
    return pd.DataFrame(
        [
            {key: value for key, value in asdict(cell).items() if key != "draft"}
            for cell in report.configurations
        ]
    )


def collective_latencies(calibration: Calibration) -> pd.DataFrame:
    """Return a row for each collective that a calibration timed, in us."""
    return pd.DataFrame(
        [
            {key: value for key, value in asdict(one).items() if key != "latency_us"}
            | _latency(one.latency_us)
            for one in calibration.collectives
        ]
    )


def forward_times(calibration: Calibration) -> pd.DataFrame:
    """Return a row for each forward that a calibration timed: alone and with its collectives, in us."""
    left = ("compute_us", "total_us")
    return pd.DataFrame(
        [
            {key: value for key, value in asdict(one).items() if key not in left}
            | {"compute_us": one.compute_us.median, "total_us": one.total_us.median if one.total_us else None}
            for one in calibration.forwards
        ]
    )


def _latency(latency: Any) -> dict[str, float]:
    return {"median_us": latency.median, "p10_us": latency.p10, "p90_us": latency.p90}


def _cells(inspection: Inspection) -> list[tuple[RunReport, Configuration]]:
    return [(run, cell) for run in inspection.runs for cell in run.configurations]


def _place(run: RunReport, cell: Configuration) -> dict[str, Any]:
    return {"run": run.run, "tp_size": run.tp_size, **{name: getattr(cell, name) for name in _CELL}}


def _spread(name: str, spread: Spread | None) -> dict[str, float | None]:
    """Return a spread as columns: `cycle_median_us`, `cycle_se_us`, ..., and how many values it is of."""
    units = {part: "" if part == "count" else "_us" for part in _SPREAD}
    return {f"{name}_{part}{units[part]}": getattr(spread, part, None) for part in _SPREAD}


def _interval(name: str, interval: Interval) -> dict[str, float | None]:
    return {name: interval.value, f"{name}_lo": interval.lo, f"{name}_hi": interval.hi}
