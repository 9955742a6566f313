"""`toolkit predict`: which step count, draft width and draft TP pay, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from toolkit.cli.number_lists import finite
from toolkit.cli.options import with_options
from toolkit.cli.places import refuse_missing_folder
from toolkit.cli.plotting import PLOT, write_plots
from toolkit.cli.question_options import QUESTION_OPTIONS, refuse_two_acceptances
from toolkit.cli.warning_lines import print_warnings

if TYPE_CHECKING:
    from toolkit.schema.cost import CostModel
    from toolkit.schema.forecast import Forecast, Question

_FORMS = ("sglang-flags", "sglang-adaptive", "vllm")


def _form_or_file(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete --emit, of whose two values click completes neither: a form, else a file."""
    forms = [CompletionItem(form) for form in _FORMS if form.startswith(begun)]
    return forms or [CompletionItem(begun, type="file")]


_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--model",
        "model_path",
        type=click.Path(path_type=Path),
        default=Path("cost-model.json"),
        show_default=True,
        help="Fitted model.",
    ),
    *QUESTION_OPTIONS,
    click.option(
        "--scenarios", type=click.Path(path_type=Path), help="Forecast exactly the rows of this table."
    ),
    click.option(
        "--allreduce-us",
        type=click.FloatRange(min=0),
        callback=finite,
        help="What if an all-reduce took this long.",
    ),
    click.option(
        "--allreduce-scale",
        type=click.FloatRange(min=0),
        callback=finite,
        help="What if all-reduces took this many times as long.",
    ),
    click.option(
        "--emit",
        type=(click.Choice(_FORMS), click.Path(path_type=Path)),
        shell_complete=_form_or_file,
        default=None,
        metavar="FORM FILE",
        help="Write what the engine reads: sglang-flags, sglang-adaptive or vllm.",
    ),
    PLOT,
    click.option("--overwrite", is_flag=True, help="Replace an existing FILE and figures."),
    click.option("--anyway", is_flag=True, help="Answer although the runs do not determine it, marked."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
]


@click.command("predict")
@with_options(_OPTIONS)
def predict_command(
    model_path: Path,
    scenarios: Path | None,
    emit: tuple[str, Path] | None,
    plot: Path | None,
    overwrite: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Forecast tok/s and say what to use.

    Every step count is ranked by its tokens per second, with intervals.

    \b
    toolkit predict --accept-rate 0.36 --engine sglang --tp-size 2

    Next: start the server with the flags after "Set:", profile it, and hold the run against this with
    `toolkit model check`. With exit code 5 the message names the run that is missing.
    """
    from toolkit.ingest.model_file import read_cost_model, refuse_existing
    from toolkit.recommend.answer import predict
    from toolkit.report.forecast_text import forecast_text
    from toolkit.report.json_text import json_text
    from toolkit.schema.forecast import Question

    refuse_two_acceptances(asked)
    if emit is not None:
        refuse_existing(emit[1], overwrite=overwrite)
        refuse_missing_folder(emit[1])
    question = Question(scenarios=None if scenarios is None else _scenarios(scenarios), **asked)
    model = read_cost_model(model_path)
    forecast = predict(model, question)
    said_by_fit = {text for group in model.groups for text in group.warnings}
    # `model fit` printed its own; the JSON keeps them
    print_warnings(text for text in forecast.warnings if text not in said_by_fit)
    if emit is not None:
        from toolkit.cli.emitting import write_emitted

        click.echo(write_emitted(emit, model, question, forecast, overwrite=overwrite), err=True)
    if plot is not None:
        _plot(model, question, forecast, plot, overwrite=overwrite)
    click.echo(json_text(forecast) if as_json else forecast_text(forecast))


def _plot(model: CostModel, question: Question, forecast: Forecast, folder: Path, *, overwrite: bool) -> None:
    """Write the figures of a forecast, with the same question at the batch sizes of the fitted runs."""
    from toolkit.figures.drawings import forecast_drawings
    from toolkit.recommend.by_batch import forecasts_by_batch

    by_batch = () if question.scenarios else forecasts_by_batch(model, question)
    drawings = [] if question.scenarios else forecast_drawings(forecast, by_batch)
    write_plots(folder, drawings, overwrite=overwrite)


def _scenarios(path: Path) -> tuple[Any, ...]:
    """Return the rows of a table as scenarios, in order."""
    from toolkit.ingest.scenarios import read_scenarios

    rows, damage = read_scenarios(path)
    print_warnings(damage)
    return rows
