"""Cycles and accept lengths on a grid, for a page that recomputes throughput from them.

Each point is what `predict` answers for that batch, step count and all-reduce time, so a page needs no
model of its own: tokens per second = batch x accept length / cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toolkit.errors import ToolkitError
from toolkit.forecast.acceptance import acceptance_of, lengths_for
from toolkit.forecast.situation import Situation, setting_for, situation_of
from toolkit.forecast.what_if import forecaster_for
from toolkit.model.collective_costs import is_allreduce, scaled
from toolkit.model.cycle_time import CycleForecast, cycle_at
from toolkit.model.fitted import Fitted
from toolkit.schema.cost import CollectiveCost, GroupModel
from toolkit.schema.forecast import AcceptanceUsed, Question
from toolkit.schema.report import AcceptLengthLines, GridCycle, WhatIfGrid

_BEYOND = 2  # times the largest batch that was run: further, a forecast is the form of the model alone
_MOST_BATCHES = 8
_LENGTH_STEP = 0.02
_MOST_LENGTHS = 300
ALLREDUCE_US = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 120.0, 160.0)


def what_if_grid(group: GroupModel, question: Question, used: AcceptanceUsed | None, seed: int) -> WhatIfGrid:
    """Return the grid of a group around a question; `used` is the acceptance as it was read."""
    situation = situation_of(group, question)
    asked = replace(question, context_tokens=situation.context_tokens, steps=situation.steps)
    batches = grid_batches(group, situation.batch_size)
    fits = [_fit_at(group, asked, batch, seed) for batch in batches]
    settled = [_situation_at(situation, batch) for batch in batches]
    changes = ALLREDUCE_US if any(is_allreduce(cost) for cost in group.collectives) else ()
    return WhatIfGrid(
        steps=situation.steps,
        batches=batches,
        context_tokens=situation.context_tokens,
        cycles=_cycles(group, fits, settled, group.collectives),
        allreduce_us=changes,
        allreduce_cycles=tuple(
            _cycles(group, fits, settled, scaled(group.collectives, us, None)) for us in changes
        ),
        lengths=None if used is None else length_lines(group, situation, used, seed),
    )


def grid_batches(group: GroupModel, asked: int) -> tuple[int, ...]:
    """Return the batch asked for, those run, and powers of two up to twice the largest run."""
    run = sorted({cell.batch_size for cell in group.cells})
    largest = max([*run, 1])
    powers = [2**power for power in range(64) if 2**power <= _BEYOND * largest]
    chosen = {asked, *run[: _MOST_BATCHES - 1], largest}
    for batch in reversed(powers):
        if len(chosen) < _MOST_BATCHES:
            chosen.add(batch)
    return tuple(sorted(chosen))


def _fit_at(group: GroupModel, question: Question, batch: int, seed: int) -> Fitted:
    """Return the fit for one batch: a share of verify that was given is held at each."""
    forecaster, _ = forecaster_for(group, replace(question, batch_size=batch), None, seed)
    return forecaster.fitted


def _situation_at(situation: Situation, batch: int) -> Situation:
    return replace(situation, batch_size=batch)


def _cycles(
    group: GroupModel, fits: Sequence[Fitted], settled: Sequence[Situation], costs: Sequence[CollectiveCost]
) -> tuple[tuple[GridCycle, ...], ...]:
    """Return the cycles of each batch and step count with these costs of collectives."""
    return tuple(
        tuple(_point(cycle_at(fitted, setting_for(group, at, steps), costs)) for steps in at.steps)
        for fitted, at in zip(fits, settled, strict=True)
    )


def _point(made: CycleForecast) -> GridCycle:
    return GridCycle(
        value=made.value,
        lo=made.lo,
        hi=made.hi,
        determined=made.determined,
        extrapolated=bool(made.extrapolated),
    )


def length_lines(
    group: GroupModel, situation: Situation, used: AcceptanceUsed, seed: int
) -> AcceptLengthLines | None:
    """Return accept lengths at each step count for a range of lengths given; None where none can be."""
    if used.num_steps is None or used.num_draft_tokens is None:
        return None
    most = used.num_steps + 1.0
    count = min(round((most - 1) / _LENGTH_STEP) + 1, _MOST_LENGTHS)
    given = {round(float(value), 4) for value in np.linspace(1.0, most, count)}
    if used.accept_length is not None:
        given.add(used.accept_length)  # where the page starts, exactly
    rows: list[tuple[float, ...]] = []
    kept: list[float] = []
    for length in sorted(given):
        asked = Question(
            accept_length=length,
            at_num_draft_tokens=used.num_draft_tokens,
            steps=situation.steps,
            topk=situation.topk,
        )
        try:
            rows.append(_lengths(group, asked, situation, seed))
        except ToolkitError:
            continue
        kept.append(length)
    if not rows:
        return None
    return AcceptLengthLines(
        num_steps=used.num_steps,
        num_draft_tokens=used.num_draft_tokens,
        given=tuple(kept),
        values=tuple(rows),
    )


def _lengths(group: GroupModel, asked: Question, situation: Situation, seed: int) -> tuple[float, ...]:
    """Return the value at each step count, which no draw enters: so none is made."""
    acceptance = acceptance_of(group, asked, situation)
    settings = [setting_for(group, situation, steps) for steps in situation.steps]
    if all(at.topk == 1 for at in settings):  # of chains one call has all step counts
        most = max(settings, key=lambda at: at.num_steps)
        values = lengths_for(group, acceptance, most, 0, seed).values
        return tuple(float(values[at.num_steps]) for at in settings)
    return tuple(
        float(lengths_for(group, acceptance, at, 0, seed).values[at.num_steps]) if at.num_steps else 1.0
        for at in settings
    )
