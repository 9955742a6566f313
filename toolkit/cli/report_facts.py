"""What a report page is made from: runs read, a model fitted or read, a forecast for each group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from toolkit import __version__
from toolkit.errors import UndeterminedError
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Question
from toolkit.schema.inspection import Inspection
from toolkit.schema.report import GroupAnswer, ReportFacts, WrittenGroup, WrittenReport

# parameters that are no question
_NOT_ASKED = {"paths", "output", "plot", "overwrite", "model_path", "as_json", "no_cache"}


def report_facts(
    paths: Sequence[Path],
    model_path: Path | None,
    question: Question,
    options: tuple[tuple[str, str], ...],
    *,
    cache: bool = True,
) -> ReportFacts:
    """Return everything the page shows; runs that nothing can be fitted to come without a model.

    BadInputError for paths that cannot be read, UndeterminedError where no group is the one asked for.
    """
    from toolkit.api import inspect_paths
    from toolkit.recommend.group_answers import group_answers

    inspection = inspect_paths(paths, cache=cache)
    model, not_fitted = _model(inspection, model_path)
    answers: tuple[GroupAnswer, ...] = () if model is None else group_answers(model, question)
    return ReportFacts(
        paths=tuple(str(path) for path in paths),
        inspection=inspection,
        model=model,
        model_path=None if model_path is None else str(model_path),
        not_fitted=not_fitted,
        answers=answers,
        options=options,
        toolkit_version=__version__,
    )


def _model(inspection: Inspection, path: Path | None) -> tuple[CostModel | None, str | None]:
    """Return the model given or fitted, or why there is none."""
    if path is not None:
        from toolkit.ingest.model_file import read_cost_model

        return read_cost_model(path), None
    from toolkit.model.fit import fit_cost_model

    try:
        return fit_cost_model(inspection), None
    except UndeterminedError as error:
        return None, str(error)


def typed_options(context: click.Context) -> tuple[tuple[str, str], ...]:
    """Return the options of the question as they were typed, for the commands that the page shows."""
    typed: list[tuple[str, str]] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _NOT_ASKED or context.get_parameter_source(name) != click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        flag = max(parameter.opts, key=len)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        typed.append((flag, "" if value is True else text))
    return tuple(typed)


def written(facts: ReportFacts, output: Path, page: str) -> WrittenReport:
    """Return what `report` says of the page that it wrote."""
    runs = facts.inspection.runs
    return WrittenReport(
        report=str(output),
        bytes=len(page.encode()),
        runs=len(runs),
        groups=tuple(_written_group(answer) for answer in facts.answers),
        failed_checks=sum(check.ok is False for run in runs for check in run.health),
        warnings=(
            *facts.inspection.warnings,
            *([facts.not_fitted] if facts.not_fitted else []),
        ),
    )


def _written_group(answer: GroupAnswer) -> WrittenGroup:
    group, forecast = answer.group, answer.forecast
    refused = answer.refused is not None or forecast is None
    return WrittenGroup(
        engine=group.engine,
        model=group.model,
        gpu=group.gpu,
        tp_size=group.tp_size,
        action="cannot tell" if forecast is None or refused else forecast.recommendation.action,
        why=answer.refused if forecast is None or refused else forecast.recommendation.why,
    )
