"""The options that ask a question of a fitted model: acceptance, situation, group, candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from toolkit.cli.number_lists import MOST_STEPS, share_list, step_list, whole_list
from toolkit.errors import UsageError

_LARGEST = 10_000_000  # beyond any batch or context; a slip of the keyboard is no question

QUESTION_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("--accept-rate", type=float, help="Accept rate, read as --rate-kind says."),
    click.option("--accept-length", type=float, help="Tokens per cycle, bonus token included."),
    click.option(
        "--accept-by-position",
        callback=share_list,
        metavar="0.7,0.5,0.3",
        help="Shares of cycles that kept draft 1, 2, ...",
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
    click.option(
        "--steps",
        callback=step_list,
        metavar="0:8",
        help="Step counts to compare, also 1,2,5.  [default: 0:8]",
    ),
    click.option("--topk", type=click.IntRange(1, 64), help="Children per draft step; 1 is a chain."),
    click.option("--draft-tp", callback=whole_list, metavar="1,2,4,8", help="Draft TP sizes to compare."),
]


def refuse_two_acceptances(asked: dict[str, Any]) -> None:
    """Raise UsageError if acceptance is given in more than one way."""
    ways = ("accept_rate", "accept_length", "accept_by_position")
    given = [f"--{way.replace('_', '-')}" for way in ways if asked[way] is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both say how drafts are accepted; give one of them")
