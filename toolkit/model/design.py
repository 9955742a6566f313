"""Which run to take next: the one that narrows the forecasts most (greedy, Bayesian linear model)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import log2, sqrt

import numpy as np

from toolkit.model.after_run import LASTING, unseen, what_it_tells
from toolkit.model.cell import DesignKey, near_context, steps_text
from toolkit.model.collective_costs import cycle_wire_us
from toolkit.model.fit_cells import FitDetail
from toolkit.model.fitted import Fitted
from toolkit.model.holdout import Miss
from toolkit.model.solve import Matrix
from toolkit.model.terms import Setting, Vector, cycle_vector
from toolkit.schema.cost import Identifiability, NextRun

_STEPS = (0, 1, 2, 3, 5, 7)
_DECISION_STEPS = range(0, 9)
_RUNS = 3
_NEW_BATCHES = (1, 8)
_PRIOR_SHARE = 0.5  # one term alone makes up to about half a cycle
_NOISE = 0.03  # of a new run's cycle: run spread and model form
_NOTICED = 0.01  # of the prior variance of one term
_BADLY = 0.1  # an error that is no run-to-run spread
_LEAST_GAIN = 0.02  # of the mean variance: below it no run is worth naming


def next_runs(detail: FitDetail, confounded: Identifiability) -> tuple[NextRun, ...]:
    """Return up to three runs, the most useful first; none when nothing would narrow noticeably."""
    columns = _all_columns(detail.fitted)
    open_now = unseen(detail.fitted)
    choices = _choices(detail)
    wanted = np.array([_relative(columns, at, detail) for at in _decisions(detail)])
    covariance = _posterior(detail, columns)
    runs: list[NextRun] = []
    for _ in range(_RUNS):
        now = _mean_variance(covariance, wanted)
        best, left = None, now
        for at in choices:
            after = _mean_variance(_updated(covariance, _relative(columns, at, detail)), wanted)
            if after < left * (1 - 1e-9):
                best, left = at, after
        if best is None or left > (1 - _LEAST_GAIN) * now or now < _NOISE**2:
            break
        row = _relative(columns, best, detail)
        updated = _updated(covariance, row)
        names = _most_gained(columns, covariance, updated)
        why = what_it_tells(best, names, open_now, confounded)
        why += f": forecasts of 0 to 8 steps become {sqrt(left):.1%} uncertain instead of {sqrt(now):.1%}"
        runs.append(
            NextRun(
                num_steps=best.num_steps,
                batch_size=best.batch_size,
                context_tokens=best.context_tokens,
                why=why,
            )
        )
        covariance, open_now = updated, open_now.after(best)
    return tuple(runs)


def run_where_missed(detail: FitDetail, misses: Sequence[Miss]) -> tuple[NextRun, ...]:
    """Return a run beside the lone configuration that the others predict worst; none below 10 %.

    Its steps and context at another batch, where they were run at one only; else the same again.
    """
    lone = [miss for miss in misses if miss.runs == 1 and abs(miss.error) > _BADLY]
    if not lone:
        return ()
    worst = max(lone, key=lambda miss: abs(miss.error))
    at = worst.at
    seen = {cell.design_key for cell in detail.cells}
    others = {cell.padded_batch_size for cell in detail.cells} - {at.batch_size}
    batch = at.batch_size
    if others and not any(_key(at, other) in seen for other in others):
        batch = min(others, key=lambda other: (abs(log2(other / at.batch_size)), other))
    where = f"{steps_text(at.num_steps)} at batch {at.batch_size}"
    where += f" and context {at.context_tokens}" if at.context_tokens else ""
    tells = "a second run tells whether it or the fit is off"
    if batch != at.batch_size:
        tells = "nothing beside it tells what such a load costs"
    how = "long" if worst.error > 0 else "short"
    why = f"left out, {where} is predicted {abs(worst.error):.0%} too {how}, and {tells}"
    return (NextRun(num_steps=at.num_steps, batch_size=batch, context_tokens=at.context_tokens, why=why),)


def _key(at: Setting, batch: int) -> DesignKey:
    context = near_context(at.context_tokens)
    return (at.num_steps, at.num_draft_tokens, at.topk, batch, context, at.overlap, at.draft_tp)


def _all_columns(fitted: Fitted) -> tuple[str, ...]:
    """Return the fit's terms, and those every group has once it is measured."""
    kept = [name for name in fitted.columns if not name.startswith("stage_overhead")]
    return tuple(dict.fromkeys([*kept, *LASTING]))


def _contexts(detail: FitDetail) -> int | None:
    contexts = [cell.context_tokens for cell in detail.cells if cell.context_tokens]
    return contexts[0] if contexts else None


def _chain(detail: FitDetail, steps: int, batch: int, context: int | None) -> Setting:
    return Setting(
        num_steps=steps,
        num_draft_tokens=steps + 1,
        topk=1,
        batch_size=batch,
        context_tokens=context,
        shape=detail.cells[0].shape,
    )


def _choices(detail: FitDetail) -> list[Setting]:
    batches = sorted({cell.batch_size for cell in detail.cells} | set(_NEW_BATCHES))
    known = sorted({cell.context_tokens for cell in detail.cells if cell.context_tokens})
    contexts: list[int | None] = [*known[:3]] or [None]
    return [
        _chain(detail, steps, batch, context) for steps, batch, context in product(_STEPS, batches, contexts)
    ]


def _decisions(detail: FitDetail) -> list[Setting]:
    batches = sorted({cell.batch_size for cell in detail.cells})
    return [_chain(detail, steps, batch, _contexts(detail)) for steps in _DECISION_STEPS for batch in batches]


def _scale(detail: FitDetail) -> float:
    cycles = [cell.cycle.us for cell in detail.cells if cell.cycle]
    return float(np.median(cycles)) if cycles else float(np.median([row.us for row in detail.rows]))


def _relative(columns: Sequence[str], at: Setting, detail: FitDetail) -> Vector:
    """Return a cycle's factors, in prior standard deviations of the terms over the cycle itself."""
    fitted = detail.fitted
    scale = _scale(detail)
    factors = cycle_vector(columns, at) * _prior(columns, detail)
    known = cycle_vector(fitted.columns, at) @ fitted.solution + cycle_wire_us(fitted.costs, at)
    return np.asarray(factors / max(float(known), 0.3 * scale))


def _prior(columns: Sequence[str], detail: FitDetail) -> Vector:
    """Return the prior standard deviation of each term, in us: about half a cycle where it acts most."""
    seen = [cycle_vector(columns, at) for at in _decisions(detail)]
    largest = np.maximum(np.max(seen, axis=0), 1.0)
    return np.asarray(_PRIOR_SHARE * _scale(detail) / largest)


def _posterior(detail: FitDetail, columns: Sequence[str]) -> Matrix:
    """Return the covariance of the terms after the runs at hand, in prior standard deviations."""
    prior = dict(zip(columns, _prior(columns, detail), strict=True))
    places = [list(columns).index(name) if name in prior else -1 for name in detail.fitted.columns]
    information = np.eye(len(columns))
    for row in detail.rows:
        factors = np.zeros(len(columns))
        for place, name, value in zip(places, detail.fitted.columns, row.factors, strict=True):
            if place >= 0:
                factors[place] = value * prior[name] / row.total_us
        information += np.outer(factors, factors) / (_NOISE**2 + row.se**2)
    return np.asarray(np.linalg.inv(information))


def _updated(covariance: Matrix, row: Vector) -> Matrix:
    gain = covariance @ row
    return np.asarray(covariance - np.outer(gain, gain) / (_NOISE**2 + row @ gain))


def _mean_variance(covariance: Matrix, wanted: Matrix) -> float:
    return float(np.einsum("ij,jk,ik->i", wanted, covariance, wanted).mean())


def _most_gained(columns: Sequence[str], before: Matrix, after: Matrix) -> list[str]:
    """Return the one or two terms that a run narrows most."""
    gained = np.diag(before) - np.diag(after)
    return [columns[i] for i in np.argsort(-gained, kind="stable")[:2] if gained[i] > _NOTICED]
