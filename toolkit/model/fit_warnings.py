"""Sentences about what a fit had to assume."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolkit.analysis.acceptance_notes import dominance_text
from toolkit.model.baseline_kind import baseline_warning
from toolkit.model.cell import Cell
from toolkit.model.columns import both_measured, phase_kind
from toolkit.model.far_apart import far_apart
from toolkit.model.fit_cells import FitDetail
from toolkit.model.pooled_acceptance import curve_cells

_WITH_GRAPHS = ("sglang", "vllm")  # engines that capture graphs unless told not to
_PHASES = ("draft", "verify", "sample", "draft_extend", "decode")
_ANOTHER_WAY, _TOLD_APART_US = 1.5, 1.0  # servers whose collectives differ by more reduce in other ways


def fit_warnings(detail: FitDetail) -> list[str]:
    """Return what the reader of the fit must know, without the group's name."""
    sentences = [
        *_stages(detail),
        *_host(detail),
        *_collectives(detail),
        *_pooled_settings(detail.cells),
        *_unmarked_acceptance(detail.cells),
        *_eager(detail.cells),
        *baseline_warning(detail),
        *_dominated(detail.cells),
        *far_apart(detail.cells),
    ]
    if detail.fitted.noise.replicate_dof == 0:
        sentences.append(
            f"no configuration was run twice: a run-to-run spread of {detail.fitted.noise.run_spread:.1%} "
            "is assumed"
        )
    return sentences


def _dominated(cells: Sequence[Cell]) -> list[str]:
    """Return a sentence for each run whose acceptance is mostly that of one request."""
    said = [(cell.run, dominance_text(cell.acceptance)) for cell in curve_cells(cells) if cell.acceptance]
    return [f"{run}: {text}" for run, text in said if text]


def _eager(cells: Sequence[Cell]) -> list[str]:
    """Say that forecasts are of a server without graphs; beside cells with graphs these are left out."""
    if cells[0].engine in _WITH_GRAPHS and all(cell.eager for cell in cells):
        return ["every forward ran without CUDA graphs: forecasts are of a server without them"]
    return []


def _stages(detail: FitDetail) -> list[str]:
    kinds = {phase: phase_kind(detail.cells, phase) for phase in _PHASES}
    stage = [phase for phase in _PHASES if kinds[phase] == "stage"]
    dropped = [
        phase
        for phase in _PHASES
        if kinds[phase] == "graph"
        and any(phase in cell.stage for cell in detail.cells)
        and not both_measured(detail.cells, phase)
    ]
    sentences = []
    if stage:
        sentences.append(
            f"{', '.join(stage)} timed around the engine's calls only: copies and launch gaps are inside "
            "these terms"
        )
    if dropped:
        sentences.append(
            f"stage times of {', '.join(dropped)} left out: other runs have graph times, and no run has both"
        )
    return sentences


def _host(detail: FitDetail) -> list[str]:
    count = sum(detail.host_bound)
    if not count:
        return []
    said = "is host-bound: its" if count == 1 else "are host-bound: their"
    of = f"{len(detail.cells)} {'configuration' if len(detail.cells) == 1 else 'configurations'}"
    return [
        f"{count} of {of} {said} cycle is a floor "
        "(host_cycle_us), and step counts whose GPU time stays below it take equally long"
    ]


def _collectives(detail: FitDetail) -> list[str]:
    if any(not cost.measured for cost in detail.fitted.costs):
        return [
            "the collectives of a plain step were not measured: as many as in the verify forward are assumed"
        ]
    return []


def _pooled_settings(cells: Sequence[Cell]) -> list[str]:
    """Return a warning that names settings that differ and that no term of the model speaks of."""
    found = {
        "all-reduce kernels": _runs_by(cells, _allreduce_kernel),
        "engine versions": _runs_by(cells, lambda cell: cell.engine_version),
    }
    if len(found["all-reduce kernels"]) < 2:
        found["time of a collective"] = _unlike_wires(cells)
    differing = [f"{what}: {_values(runs)}" for what, runs in found.items() if len(runs) > 1]
    if not differing:
        return []
    return [
        f"runs are fitted together that differ in what no term tells apart ({'; '.join(differing)}): "
        "if that matters, fit them apart"
    ]


def _runs_by(cells: Sequence[Cell], setting: Callable[[Cell], object]) -> dict[str, list[str]]:
    """Return the runs by what is known of their setting, each run once."""
    runs: dict[str, dict[str, None]] = {}
    for cell in cells:
        value = setting(cell)
        if value is not None:
            runs.setdefault(str(value), {})[cell.run] = None
    return {value: list(names) for value, names in sorted(runs.items())}


def _allreduce_kernel(cell: Cell) -> str | None:
    """Return the kernels of a traced cell's all-reduces, None where no trace shows one."""
    kernels = {r.algorithm for r in cell.collectives if "all_reduce" in r.op and r.algorithm is not None}
    return " and ".join(sorted(kernels)) or None


def _unlike_wires(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Return the runs by what one collective takes in them, where two of a kind and size are far apart."""
    wires: dict[tuple[object, ...], list[tuple[float, str]]] = {}
    for cell in cells:
        for one in cell.collectives:
            if one.wire_us:
                kind = (one.phase, one.op, one.source, cell.padded_batch_size, cell.num_draft_tokens)
                wires.setdefault(kind, []).append((one.wire_us, cell.run))
    for timed in wires.values():
        (least, shortest), (most, longest) = min(timed), max(timed)
        if most > _ANOTHER_WAY * least and most - least > _TOLD_APART_US:
            return {f"{least:.1f} us": [shortest], f"{most:.1f} us": [longest]}
    return {}


def _values(runs: dict[str, list[str]]) -> str:
    """Return each value with its runs: by name where there is one run, else their number."""
    return ", ".join(
        f"{value} in {names[0] if len(names) == 1 else f'{len(names)} runs'}" for value, names in runs.items()
    )


def _unmarked_acceptance(cells: Sequence[Cell]) -> list[str]:
    """Acceptance that no run.json marks feeds the curve as real; simulated acceptance never does."""
    runs = {cell.run for cell in curve_cells(cells) if cell.acceptance_kind != "real"}
    if not runs:
        return []
    named = next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"
    return [f"acceptance of {named} is marked neither real nor simulated and counts as real"]
