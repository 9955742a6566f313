"""`toolkit predict`: which step count, draft width and draft TP pay, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from toolkit.cli.number_lists import MOST_STEPS, finite, share_list, step_list, whole_list
from toolkit.cli.options import with_options
from toolkit.cli.places import refuse_missing_folder
from toolkit.cli.warning_lines import print_warnings
from toolkit.errors import UsageError

_LARGEST = 10_000_000  # beyond any batch or context; a slip of the keyboard is no question

_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--model",
        "model_path",
        type=click.Path(path_type=Path),
        default=Path("cost-model.json"),
        show_default=True,
        help="Fitted model.",
    ),
    click.option("--accept-rate", type=float, help="Accept rate, read as --rate-kind says."),
    click.option("--accept-length", type=float, help="Tokens per cycle, bonus token included."),
    click.option(
        "--accept-by-position",
        callback=share_list,
        help="Shares of cycles that kept draft 1, 2, ...: 0.7,0.5,0.3.",
    ),
    click.option(
        "--rate-kind",
        type=click.Choice(["log", "draft", "conditional"]),
        default="log",
        show_default=True,
        help="log: as the engine prints it. draft: correct/proposed. conditional: per position.",
    ),
    click.option(
        "--at-num-draft-tokens", type=int, metavar="D", help="Draft tokens (root included) of the acceptance."
    ),
    click.option("--batch-size", type=click.IntRange(1, _LARGEST), help="Running requests."),
    click.option(
        "--context-tokens", type=click.IntRange(0, _LARGEST), help="Tokens of context of a request."
    ),
    click.option("--tp-size", type=click.IntRange(min=1), help="Choose the fitted group by its TP size."),
    click.option("--engine", help="Choose the fitted group by its engine."),
    click.option("--model-name", help="Choose the fitted group by (a part of) its model's name."),
    click.option("--gpu", help="Choose the fitted group by (a part of) its GPU's name, or unknown."),
    click.option("--draft-model", help="Choose the fitted group by (a part of) its draft model, or unknown."),
    click.option("--current-steps", type=click.IntRange(0, MOST_STEPS), help="Step count in use; 0 is off."),
    click.option("--verify-share", type=float, help="Verify's share of the cycle, where you know it."),
    click.option("--steps", callback=step_list, help="Step counts to compare: 0:8 or 1,2,5.  [default: 0:8]"),
    click.option("--topk", type=click.IntRange(1, 64), help="Children per draft step; 1 is a chain."),
    click.option("--draft-tp", callback=whole_list, help="Draft TP sizes to compare: 1,2,4,8."),
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
        type=(click.Choice(["sglang-flags", "sglang-adaptive", "vllm"]), click.Path(path_type=Path)),
        default=None,
        metavar="FORM FILE",
        help="Write what the engine reads: sglang-flags, sglang-adaptive or vllm.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace an existing FILE."),
    click.option("--anyway", is_flag=True, help="Answer although the runs do not determine it, marked."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
]


@click.command("predict")
@with_options(_OPTIONS)
def predict_command(
    model_path: Path,
    scenarios: Path | None,
    emit: tuple[str, Path] | None,
    overwrite: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Forecast tok/s and say what to use.

    Every step count is ranked by its tokens per second, with intervals.

    \b
    toolkit predict --model cost-model.json --accept-rate 0.36 --tp-size 2
    """
    from toolkit.ingest.model_file import read_cost_model, refuse_existing
    from toolkit.recommend.answer import predict
    from toolkit.report.forecast_text import forecast_text
    from toolkit.report.json_text import json_text
    from toolkit.schema.forecast import Question

    _one_acceptance(asked)
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
    click.echo(json_text(forecast) if as_json else forecast_text(forecast))


def _one_acceptance(asked: dict[str, Any]) -> None:
    ways = ("accept_rate", "accept_length", "accept_by_position")
    given = [f"--{way.replace('_', '-')}" for way in ways if asked[way] is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both say how drafts are accepted; give one of them")


def _scenarios(path: Path) -> tuple[Any, ...]:
    """Return the rows of a table as scenarios, in order."""
    from toolkit.ingest.scenarios import read_scenarios

    rows, damage = read_scenarios(path)
    print_warnings(damage)
    return rows
