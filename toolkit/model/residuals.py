"""Forecasts drawn towards what was measured: the fit's residuals, shrunk (empirical Bayes, kriging).

log measured = log fit + m + e. The fit's own error m is normal with deviation tau, alike at settings
that are alike (`_likeness`); e is a run's, with the run spread sigma. Given the residuals r of all cells,
m at a setting is expected to be k' (tau^2 R + sigma^2 I)^-1 r, k and R being tau^2 and likenesses. At a
configuration measured n times and alone this is r times tau^2 / (tau^2 + sigma^2 / n). tau comes from
the residuals themselves. A configuration that is held out is not among the cells, so it never helps
to predict itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from toolkit.model.collective_costs import cycle_wire_us
from toolkit.model.fitted import Fitted, Matrix, Residuals
from toolkit.model.reach import FORM_INSIDE
from toolkit.model.summed_cycle import DETERMINED, host_floor, open_share, summed_cycle
from toolkit.model.terms import Setting, Vector, cycle_vector

# distances at which likeness falls to 1/e; residuals of recorded sweeps agree along steps, less over batches
_STEPS, _BATCH_DOUBLINGS, _CONTEXT_DOUBLINGS = 4.0, 1.0, 2.0
_LARGEST_TAU = 0.3
_NOT_ALIKE = 1e-3  # below this likeness a cell is left aside
# of sigma: terms free enough to meet every cell leave no residual, which tells nothing of other settings
_MET = 0.1


# a setting, its cycle in us, and the wire time in it where its run had collectives of its own
Measured = tuple[Setting, float, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What the residuals say of one setting: log shift, its change with each refit, and how much is known.

    `known` is the share of the model error's variance that is gone: 0 where nothing near was measured.
    """

    shift: float
    moves: Vector
    known: float
    tau: float


def no_pull(draws: int, tau: float = 0.0) -> Pull:
    """Return that nothing is known of a setting beside the fit."""
    return Pull(shift=0.0, moves=np.zeros(draws), known=0.0, tau=tau)


def with_residuals(fitted: Fitted, measured: Sequence[Measured]) -> Fitted:
    """Return the fit with the residuals of its measured cycles."""
    return replace(
        fitted,
        plain_residuals=_residuals(fitted, measured, plain=True),
        speculative_residuals=_residuals(fitted, measured, plain=False),
    )


def _residuals(fitted: Fitted, measured: Sequence[Measured], *, plain: bool) -> Residuals | None:
    """Return the residuals of plain decoding or of speculation; None without any that is determined."""
    settings, at_floor, logs, moves = [], [], [], []
    for at, us, own_wire in measured:
        factors = cycle_vector(fitted.columns, at)
        if (at.num_steps == 0) != plain or open_share(fitted, factors) > DETERMINED:
            continue
        wire = cycle_wire_us(fitted.costs, at) if own_wire is None else own_wire
        value = float(summed_cycle(fitted, factors, wire, at, fitted.solution[None, :])[0])
        drawn = summed_cycle(fitted, factors, wire, at, fitted.draws)
        settings.append(at)
        at_floor.append(_at_floor(fitted, at, value))
        logs.append(np.log(us / value))
        moves.append(np.log(np.maximum(drawn, 1e-9) / value))
    if not settings:
        return None
    noise = fitted.noise
    sigma = noise.plain_run_spread if plain else noise.speculative_run_spread
    sigma = noise.run_spread if sigma is None else sigma
    own = [log for log, floor in zip(logs, at_floor, strict=True) if not floor]
    squares = float(np.mean(np.square(own))) - sigma**2 if own else 0.0
    fresh = np.random.default_rng([fitted.seed, 5, int(plain)]).standard_normal(np.shape(moves))
    return Residuals(
        settings=tuple(settings),
        at_floor=tuple(at_floor),
        logs=np.array(logs),
        moves=sigma * fresh - np.array(moves),
        tau=float(np.sqrt(np.clip(squares, FORM_INSIDE**2, _LARGEST_TAU**2))),
        sigma=sigma,
    )


def pull_at(fitted: Fitted, at: Setting) -> Pull:
    """Return what the residuals near a setting say of it."""
    residuals = fitted.plain_residuals if at.num_steps == 0 else fitted.speculative_residuals
    if residuals is None:
        return no_pull(len(fitted.draws))
    factors, wire = cycle_vector(fitted.columns, at), cycle_wire_us(fitted.costs, at)
    here = _at_floor(fitted, at, float(summed_cycle(fitted, factors, wire, at, fitted.solution[None, :])[0]))
    seen = _places(residuals.settings, residuals.at_floor)
    likeness = _likeness(_places((at,), (here,)), seen)[0]
    met = float(np.sqrt(np.mean(residuals.logs**2))) < _MET * residuals.sigma
    near = np.flatnonzero(likeness > (1 - _NOT_ALIKE if met else _NOT_ALIKE))
    if not len(near):
        return no_pull(len(fitted.draws), residuals.tau)
    among = seen[:, near]
    between = _likeness(among, among)
    variance = residuals.tau**2
    # a floor is one number, so how far cycles at it lie apart is how far servers' hosts do
    floors = max(residuals.sigma, fitted.noise.floor_spread)
    sigmas = np.where(np.array(residuals.at_floor)[near], floors, residuals.sigma)
    weights = np.linalg.solve(variance * between + np.diag(sigmas**2), variance * likeness[near])
    return Pull(
        shift=float(weights @ residuals.logs[near]),
        moves=np.asarray(weights @ residuals.moves[near]),
        known=float(np.clip(weights @ likeness[near], 0.0, 1.0)),
        tau=residuals.tau,
    )


def _places(settings: Sequence[Setting], at_floor: Sequence[bool]) -> Matrix:
    """Return what likeness compares of each setting, a column each; an unknown context is no number."""
    return np.asarray(
        np.array(
            [
                (
                    at.num_steps,
                    log2(at.num_draft_tokens),
                    log2(at.batch_size),
                    log2(at.context_tokens) if at.context_tokens else np.nan,
                    at.overlap,
                    at.topk,
                    floor,
                    at.draft_tp or 0,
                )
                for at, floor in zip(settings, at_floor, strict=True)
            ],
            dtype=float,
        ).T
    )


def _likeness(ones: Matrix, others: Matrix) -> Matrix:
    """Return how alike the fit's errors at two settings are, 0 to 1: a row for each of `ones`."""
    steps, width, batch, context = (np.abs(ones[i][:, None] - others[i]) for i in range(4))
    overlap, topk, draft_tp = (ones[i][:, None] == others[i] for i in (4, 5, 7))
    distance = batch / _BATCH_DOUBLINGS + np.nan_to_num(context) / _CONTEXT_DOUBLINGS
    on_gpu = ~((ones[6][:, None] > 0) & (others[6] > 0))  # a floor is as wrong at any step count
    distance = distance + on_gpu * (steps / _STEPS + width * (ones[5][:, None] > 1))
    return np.asarray(np.exp(-distance) * (overlap & topk & draft_tp))


def _at_floor(fitted: Fitted, at: Setting, value_us: float) -> bool:
    floor = host_floor(fitted, at, fitted.solution[None, :])
    return floor is not None and value_us <= float(floor[0]) * (1 + 1e-9)
