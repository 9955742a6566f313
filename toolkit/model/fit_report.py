"""A cost model as `model fit` reports it."""

from __future__ import annotations

from toolkit.schema.cost import CostModel, FitReport, GroupReport


def fit_report(model: CostModel, path: str) -> FitReport:
    """Return what a fit found, `path` being where the model went."""
    groups = tuple(
        GroupReport(
            engine=group.engine,
            model=group.model,
            gpu=group.gpu,
            tp_size=group.tp_size,
            configurations=len(group.cells),
            terms=group.terms,
            holdout=group.holdout,
            identifiability=group.identifiability,
            next_runs=group.next_runs,
            run_spread=group.noise.run_spread,
            cells=group.cells,
            warnings=group.warnings,
            calibration=group.calibration.run if group.calibration else None,
            calibrated_draft_tps=group.calibration.sizes if group.calibration else (),
            draft_model=group.draft_model,
            other_drafts=group.other_drafts,
        )
        for group in model.groups
    )
    warnings = (*model.warnings, *(text for group in model.groups for text in group.warnings))
    return FitReport(model=path, runs=model.runs, groups=groups, warnings=warnings)
