"""Sentences about what a fit had to assume."""

from __future__ import annotations

from toolkit.model.columns import both_measured, phase_kind
from toolkit.model.fit_cells import FitDetail

_PHASES = ("draft", "verify", "sample", "draft_extend", "decode")


def fit_warnings(detail: FitDetail) -> list[str]:
    """Return what the reader of the fit must know, without the group's name."""
    sentences = [*_stages(detail), *_host(detail), *_collectives(detail)]
    if detail.fitted.noise.replicate_dof == 0:
        sentences.append(
            f"no configuration was run twice: a run-to-run spread of {detail.fitted.noise.run_spread:.1%} "
            "is assumed"
        )
    return sentences


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
    return [
        f"{count} of {len(detail.cells)} configurations are host-bound: their cycle is a floor "
        "(host_cycle_us), and step counts whose GPU time stays below it take equally long"
    ]


def _collectives(detail: FitDetail) -> list[str]:
    if any(not cost.measured for cost in detail.fitted.costs):
        return [
            "the collectives of a plain step were not traced: as many as in the verify forward are assumed"
        ]
    return []
