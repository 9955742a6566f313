"""Accept length against step count: measured hazards, shifted to a length given, and a decaying tail.

tau(K) = 1 + sum over j <= K of a_1 ... a_j. The hazard a_j is the chance that draft j is kept when
draft j-1 was. Beyond what was measured it falls by exp(-d) a position, d ~ N(0.035, 0.04), d >= 0. On
public curves known to 3 steps that errs 2 to 6 % at 4 to 8 steps, holding the last hazard 2 to 7 %, and
a geometric series (one hazard from the first position on) up to 50 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.model.terms import Vector
from toolkit.schema.cost import AcceptanceCurve

Matrix = NDArray[np.float64]
DECAY, DECAY_SPREAD = 0.035, 0.04
_FORM_INSIDE, _FORM_NEXT, _FORM_TWICE = (
    0.02,
    0.05,
    0.10,
)  # of tau: at, just beyond and at twice the steps seen
_BRANCH = (0.5, 1.0)  # a tree of w children keeps a draft with 1 - (1 - a) w^-b
# drafts kept by a tree over those of a chain with as many drafts to verify: branches cost depth.
# Public tables (74 pairs of 5 and 7 steps) have medians of 0.84 and 0.75
_TREE_KEEPS = (0.65, 1.0)
_EDGE = 1e-9
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Acceptance typed by the user or taken from a log: a length at a step count, or S_j by position."""

    accept_length: float | None = None
    num_steps: int | None = None
    by_position: tuple[float, ...] = ()
    topk: int = 1
    children: float = 1.0  # verified drafts per step, see `children_per_step`


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLengths:
    """tau by step count (index 0: plain decoding, 1) and its draws, shape (draws, steps + 1).

    `known_steps`: the step counts up to which it rests on a measurement or on what was given.
    """

    values: Vector
    draws: Matrix
    known_steps: int
    source: str


def children_per_step(num_steps: int, num_draft_tokens: int, topk: int) -> float:
    """Return how many drafts are verified per step: what topk offers, or what the width has room for."""
    return min(float(topk), max((num_draft_tokens - 1) / max(num_steps, 1), 1.0))


def accept_lengths(
    curve: AcceptanceCurve | None,
    given: Given | None,
    most_steps: int,
    topk: int,
    draws: int,
    seed: int,
    children: float = 1.0,
) -> AcceptLengths:
    """Return tau for 0 to `most_steps` steps of a chain or of a tree with `children` drafts per step.

    Needs a curve or something given (ValueError otherwise). A length given moves every hazard by
    one amount in log-odds, so the measured shape is kept.
    """
    if curve is None and given is None:
        raise ValueError("accept lengths of nothing")
    rng = np.random.default_rng([seed, 3])
    decay = _decays(rng, draws)
    longest = max(most_steps, (given.num_steps or 0) if given else 0, 1)
    if given is not None and given.by_position:
        hazards = _with_tail(_hazards_of(given.by_position, draws), decay, longest)
        known, anchor, source = len(given.by_position), None, "given"
    elif curve is not None:
        hazards = _with_tail(_curve_draws(curve, rng, draws), decay, longest)
        known, anchor, source = len(curve.kept), None, "measured"
        if given is not None:
            hazards = _shifted(hazards, given)
            anchor, known = given.num_steps, max(known, given.num_steps or 0)
    else:
        assert given is not None
        hazards = _prior_hazards(decay, given, longest)
        known = anchor = given.num_steps or 1
        source = "prior"
    like = given or Given()
    hazards = _branched(hazards, children / like.children, rng)
    lengths = _lengths(hazards)[:, : most_steps + 1]
    if (topk > 1) != (like.topk > 1):
        lengths = _reshaped(lengths, topk > 1, rng)
    same = (topk, children) == (like.topk, like.children)
    lengths = _with_form_error(lengths, known, anchor if same else None, rng)
    return AcceptLengths(values=lengths[0], draws=lengths[1:], known_steps=known, source=source)


def _decays(rng: np.random.Generator, draws: int) -> Vector:
    """Return the decay per step: the prior mean first, then draws."""
    drawn = rng.normal(DECAY, DECAY_SPREAD, size=draws * 8)
    kept = drawn[drawn >= 0][:draws]
    return np.concatenate([[DECAY], kept])


def _hazards_of(by_position: tuple[float, ...], draws: int) -> Matrix:
    survival = np.array([1.0, *by_position])
    hazards = np.divide(survival[1:], survival[:-1], out=np.zeros(len(by_position)), where=survival[:-1] > 0)
    return np.tile(hazards, (draws + 1, 1))


def _curve_draws(curve: AcceptanceCurve, rng: np.random.Generator, draws: int) -> Matrix:
    """Return measured hazards, then draws of them in log-odds; half a count keeps 0 and 1 finite."""
    kept = np.array(curve.kept) / curve.design_effect + 0.5
    lost = (np.array(curve.at_risk) - np.array(curve.kept)) / curve.design_effect + 0.5
    spread = np.sqrt(1 / kept + 1 / np.maximum(lost, 0.5))
    moves = rng.standard_normal((draws + 1, len(kept))) * spread
    moves[0] = 0.0
    exact = np.clip(np.array(curve.kept) / np.maximum(np.array(curve.at_risk), _EDGE), _EDGE, 1 - _EDGE)
    return _expit(_logit(exact) + moves)


def _with_tail(hazards: Matrix, decay: Vector, longest: int) -> Matrix:
    beyond = np.arange(1, max(longest - hazards.shape[1], 0) + 1)
    tail = hazards[:, -1:] * np.exp(-decay[:, None] * beyond)
    return np.hstack([hazards, tail])


def _prior_hazards(decay: Vector, given: Given, longest: int) -> Matrix:
    """Return hazards of the prior shape whose tau at the given step count is the given length."""
    steps = given.num_steps or 1
    shape = np.exp(-decay[:, None] * np.arange(longest))

    def hazards(first: Vector) -> Matrix:
        return np.clip(first[:, None] * shape, 0.0, 1.0)

    highest = np.exp(decay * steps)
    return hazards(_solved(lambda first: _tau(hazards(first), steps), given, np.zeros_like(highest), highest))


def _shifted(hazards: Matrix, given: Given) -> Matrix:
    odds = _logit(np.clip(hazards, _EDGE, 1 - _EDGE))
    steps = given.num_steps or 1

    def moved(shift: Vector) -> Matrix:
        return _expit(odds + shift[:, None])

    ends = np.full(len(hazards), 40.0)
    return moved(_solved(lambda shift: _tau(moved(shift), steps), given, -ends, ends))


def _solved(tau: Callable[[Vector], Vector], given: Given, low: Vector, high: Vector) -> Vector:
    """Return where an increasing tau meets the given length, by halving."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = tau(middle) < (given.accept_length or 1.0)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _tau(hazards: Matrix, steps: int) -> Vector:
    return np.asarray(_lengths(hazards)[:, steps])


def _lengths(hazards: Matrix) -> Matrix:
    """Return tau for 0, 1, ... steps in each row."""
    ones = np.ones((len(hazards), 1))
    return np.hstack([ones, 1 + np.cumsum(np.cumprod(hazards, axis=1), axis=1)])


def _branched(hazards: Matrix, ratio: float, rng: np.random.Generator) -> Matrix:
    """Return hazards with `ratio` times as many children per draft."""
    if ratio == 1.0:
        return hazards
    power = rng.uniform(*_BRANCH, size=len(hazards))
    power[0] = sum(_BRANCH) / 2
    return np.clip(1 - (1 - hazards) * ratio ** -power[:, None], 0.0, 1.0)


def _reshaped(lengths: Matrix, to_tree: bool, rng: np.random.Generator) -> Matrix:
    """Return lengths of trees from those of chains, or the other way round."""
    kept = rng.uniform(*_TREE_KEEPS, size=(len(lengths), 1))
    kept[0] = sum(_TREE_KEEPS) / 2
    drafts = (lengths - 1) * (kept if to_tree else 1 / kept)
    return np.asarray(np.minimum(1 + drafts, np.arange(lengths.shape[1]) + 1))


def _with_form_error(lengths: Matrix, known: int, anchor: int | None, rng: np.random.Generator) -> Matrix:
    """Add the error of the shape itself: none at the anchor, 2 % inside, 5 to 10 % beyond."""
    steps = np.arange(lengths.shape[1])
    beyond = np.clip((steps - known) / max(known, 1), 0.0, 1.0)
    form = np.where(steps > known, _FORM_NEXT + (_FORM_TWICE - _FORM_NEXT) * beyond, _FORM_INSIDE)
    if anchor is not None and anchor < len(form):
        form[anchor] = 0.0
    errors = rng.standard_normal((len(lengths), 1))
    errors[0] = 0.0
    drafts = np.maximum(lengths - 1, 0.0)
    share = np.minimum(form * lengths / np.maximum(drafts, _EDGE), 0.5)
    return np.asarray(np.minimum(1 + drafts * np.exp(share * errors), steps + 1))


def _logit(share: Matrix) -> Matrix:
    return np.asarray(np.log(share) - np.log1p(-share))


def _expit(odds: Matrix) -> Matrix:
    return np.asarray(1 / (1 + np.exp(-odds)))
