"""What an accept rate means: the conventions in use, told apart and converted."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from toolkit.errors import UndeterminedError, UsageError

RateConvention = Literal["length/tokens", "correct/proposed"]
RateKind = Literal["log", "draft", "conditional"]

_CONVENTIONS: tuple[RateConvention, ...] = get_args(RateConvention)
_HALF_DIGIT = 0.005  # lengths and rates are printed with two digits
_SLACK = 1e-9  # of the arithmetic itself
_MAX_DRAFT_TOKENS = 128  # widest tree considered: published ones have up to 64
_ENOUGH_LINES = 10  # below this many, one line that does not fit leaves it open
_MOST = 0.9  # share of lines that must fit once there are enough
_RELEASE = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True)
class RateReading:
    """How log lines print their rate.

    `num_draft_tokens` is the width (root included) that the lines imply, None when several fit;
    `lines` fit, of those that say anything. `note` is a sentence when that disagrees with the width given.
    """

    convention: RateConvention
    num_draft_tokens: int | None
    lines: int = 0
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """A convention and a width (root included) under which a printed length and rate agree."""

    convention: RateConvention
    num_draft_tokens: int


def conventions_of(
    accept_length: float, accept_rate: float, *, num_draft_tokens: int | None = None
) -> frozenset[Fit]:
    """Return every convention and width that one line's printed length L and rate fit.

    length/tokens: rate = L/n; correct/proposed: rate = (L-1)/(n-1). Both numbers are rounded to two
    digits, so each stands for an interval. Source: SGLang before and since its pull request 23530.
    """
    if not (math.isfinite(accept_length) and math.isfinite(accept_rate)):
        return frozenset()
    return frozenset(
        Fit(convention, width)
        for convention in _CONVENTIONS
        for width in _fitting_widths(accept_length, accept_rate, convention)
        if num_draft_tokens is None or width == num_draft_tokens
    )


def _fitting_widths(length: float, rate: float, convention: RateConvention) -> range:
    """Return the widths n whose exact ratio can be printed as `rate` when `length` was printed."""
    bonus = 1 if convention == "correct/proposed" else 0
    low = max(length - _HALF_DIGIT, 1.0) - bonus
    high = length + _HALF_DIGIT - bonus
    rate_low, rate_high = rate - _HALF_DIGIT, rate + _HALF_DIGIT
    if high < 0 or rate_high <= 0 or rate_low > 1:
        return range(0)
    least = math.ceil(low / rate_high - _SLACK)
    most = math.floor(high / rate_low + _SLACK) if rate_low > _SLACK else _MAX_DRAFT_TOKENS
    least = max(least, math.ceil(low - _SLACK), 1)  # no more accepted than there is room for
    return range(max(least + bonus, 2), min(most + bonus, _MAX_DRAFT_TOKENS) + 1)


def settle_convention(
    lines: Sequence[tuple[float, float]], num_draft_tokens: int | None = None
) -> RateReading | None:
    """Return the convention that all (accept length, accept rate) lines share; None if two remain.

    One line is often ambiguous where all of them together are not. With `num_draft_tokens` known the
    lines must agree with it; when they fit only another width, `note` says so.
    """
    counts: Counter[Fit] = Counter()
    total = 0
    for (length, rate), alike in Counter(lines).items():
        fits = conventions_of(length, rate)
        total += alike if fits else 0
        counts.update(dict.fromkeys(fits, alike))
    needed = total if total < _ENOUGH_LINES else math.ceil(_MOST * total)
    shared = {fit: count for fit, count in counts.items() if count >= needed}
    best = _leading(shared)
    if num_draft_tokens is None:
        return _reading(best)
    at_width = {fit: count for fit, count in shared.items() if fit.num_draft_tokens == num_draft_tokens}
    if at_width:
        return _reading(_leading(at_width))
    elsewhere = _reading(best)
    if elsewhere is None:
        return None
    implied = elsewhere.num_draft_tokens
    note = f"the log's lengths and rates do not fit {num_draft_tokens} draft tokens" + (
        f" but {implied}" if implied else ""
    )
    return RateReading(elsewhere.convention, implied, elsewhere.lines, note)


def width_of_most(lines: Sequence[tuple[float, float]]) -> int | None:
    """Return the width (root included) that more than half of the (accept length, accept rate) lines share.

    Some of the others may be damaged, so this is weaker than `settle_convention`: it serves to find the
    lines that cannot be. Where several widths fit as many lines it is the widest of them.
    """
    counts: Counter[Fit] = Counter()
    for line, alike in Counter(lines).items():
        counts.update(dict.fromkeys(conventions_of(*line), alike))
    leading = _leading({fit: count for fit, count in counts.items() if 2 * count > len(lines)})
    return max((fit.num_draft_tokens for fit in leading), default=None)


def _leading(counts: dict[Fit, int]) -> dict[Fit, int]:
    """Return the fits that as many lines share as the best one has."""
    most = max(counts.values(), default=0)
    return {fit: count for fit, count in counts.items() if count == most}


def _reading(counts: dict[Fit, int]) -> RateReading | None:
    conventions = {fit.convention for fit in counts}
    if len(conventions) != 1:
        return None
    widths = {fit.num_draft_tokens for fit in counts}
    return RateReading(conventions.pop(), widths.pop() if len(widths) == 1 else None, max(counts.values()))


def convention_of_version(engine: str | None, version: str | None) -> RateConvention | None:
    """Return the convention of an engine's release; None where the release does not settle it.

    SGLang up to 0.5.9 prints length/tokens, since 0.5.11 correct/proposed; 0.5.10 lies between.
    """
    name = (engine or "").lower()
    if name == "vllm":
        return "correct/proposed"
    found = _RELEASE.match((version or "").strip())
    if name != "sglang" or not found:
        return None
    release = tuple(int(part or 0) for part in found.groups())
    if release <= (0, 5, 9):
        return "length/tokens"
    return "correct/proposed" if release >= (0, 5, 11) else None


def check_rate(rate: float) -> float:
    """Return a rate between 0 and 1; UsageError in one sentence for any other number."""
    if math.isfinite(rate) and 0 <= rate <= 1:
        return rate
    if 2 <= rate <= 100:
        raise UsageError(
            f"accept rate {rate:g} is not between 0 and 1; did you mean {rate / 100:g} (a percent)?"
        )
    if 1 < rate < 2:
        raise UsageError(
            f"accept rate {rate:g} is not between 0 and 1; if it counts tokens per cycle, give it as "
            "--accept-length"
        )
    raise UsageError(
        f"accept rate {rate:g} is not between 0 and 1; give the share as a fraction such as 0.36"
    )


def accept_length_from_rate(
    rate: float,
    kind: RateKind,
    num_draft_tokens: int,
    convention: RateConvention | None = None,
    *,
    num_steps: int | None = None,
) -> float:
    """Return the accept length (bonus included) that a rate stands for.

    `num_draft_tokens` D counts the root. log, length/tokens: rate x D; log, correct/proposed, and
    draft: 1 + rate x (D-1); conditional a over K steps (`num_steps`, else D-1): 1 + a + ... + a^K.
    UsageError for a rate that cannot be; UndeterminedError for `log` when no convention is known.
    """
    check_rate(rate)
    if num_draft_tokens < 1:
        raise UsageError(f"{num_draft_tokens} draft tokens cannot be; the root counts, so give at least 1")
    if kind == "conditional":
        steps = num_draft_tokens - 1 if num_steps is None else num_steps
        return math.fsum(rate**power for power in range(steps + 1))
    of_drafts = 1 + rate * (num_draft_tokens - 1)
    if kind == "draft" or convention == "correct/proposed":
        return of_drafts
    of_tokens = rate * num_draft_tokens
    if convention is None:
        raise UndeterminedError(
            f"accept rate {rate:g} with {num_draft_tokens} draft tokens is {of_tokens:.2f} tokens a cycle as "
            f"SGLang 0.5.9 and older print it and {of_drafts:.2f} as newer ones and vLLM do; "
            "give --rate-kind draft or --accept-length"
        )
    if of_tokens < 1 - _HALF_DIGIT * num_draft_tokens:
        raise UsageError(
            f"accept rate {rate:g} cannot be accept length / draft tokens: with {num_draft_tokens} draft "
            f"tokens it is at least {1 / num_draft_tokens:.2f}; if it is correct / proposed drafts, "
            "give --rate-kind draft"
        )
    return max(of_tokens, 1.0)


def readings(
    rate: float,
    num_draft_tokens: int,
    convention: RateConvention | None = None,
    *,
    num_steps: int | None = None,
) -> dict[str, float | None]:
    """Return the accept length under each kind of rate; None where that reading cannot be.

    0.36 with 6 draft tokens: log 2.16 (length/tokens) or 2.80, draft 2.80, conditional 1.56.
    """
    found: dict[str, float | None] = {}
    for kind in get_args(RateKind):
        try:
            found[kind] = accept_length_from_rate(
                rate, kind, num_draft_tokens, convention, num_steps=num_steps
            )
        except (UsageError, UndeterminedError):
            found[kind] = None
    check_rate(rate)
    return found


def log_rate(accept_length: float, num_draft_tokens: int, convention: RateConvention) -> float | None:
    """Return the rate a log would print for an accept length; None for plain decoding (no drafts)."""
    if convention == "length/tokens":
        return accept_length / num_draft_tokens
    return (accept_length - 1) / (num_draft_tokens - 1) if num_draft_tokens > 1 else None
