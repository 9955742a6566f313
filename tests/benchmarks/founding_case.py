"""The case the project was started for: what its engineers believed, and what the toolkit says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.api import inspect_paths
from toolkit.errors import UndeterminedError
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CostModel
from toolkit.schema.forecast import Candidate, Forecast, Question
from toolkit.schema.inspection import AcceptanceAudit, Inspection

_OFFLINE_ACCURACY = 0.77


@dataclass(frozen=True, slots=True)
class Statement:
    """What was believed or measured, what the folder's README says of it, and what the toolkit says.

    `agrees` is None where the two files cannot speak of it.
    """

    stated: str
    known: str
    said: str
    agrees: bool | None


def statements(folder: Path) -> list[Statement]:
    """Return every statement of the folder's README that its two files can speak of."""
    inspection = inspect_paths([folder], offline_accuracy=_OFFLINE_ACCURACY)
    model = fit_cost_model(inspection)
    asked = predict(model, Question(accept_rate=0.36))
    return [
        _rate(asked),
        _cycle(inspection),
        _break_even(asked),
        _parts(model),
        _draft_tp(model),
        _offline(inspection),
        _plain(asked),
        _wrong_states(model),
        _mean_of_prompts(asked),
        _tuned(model),
        _two_steps(model),
    ]


def _at(forecast: Forecast, steps: int) -> Candidate:
    return next(one for one in forecast.candidates if one.num_steps == steps)


def _rate(asked: Forecast) -> Statement:
    used = asked.acceptance
    chance = used.readings["conditional"]
    return Statement(
        "accept rate 0.36 is the chance per token",
        "no: accept length / draft tokens, 2.17 / 6",
        f"0.36 is {used.convention}: {used.accept_length:.2f} tokens a cycle; as the chance of a token it "
        f"would be {chance:.2f}",
        used.convention == "length/tokens" and abs((used.accept_length or 0) - 2.17) < 0.02,
    )


def _cycle(inspection: Inspection) -> Statement:
    (note,) = [
        text
        for run in inspection.runs
        for cell in run.configurations
        for text in cell.notes
        if "hardly" in text
    ]
    return Statement(
        "verify takes 15 to 20 ms, five draft steps 15 ms",
        "the whole cycle is 27.4 ms and 28.2 ms, so it hardly moves with acceptance",
        note,
        "27.4 to 28.2 ms" in note,
    )


def _break_even(asked: Forecast) -> Statement:
    even = next(one.accept_length for one in asked.break_even_accept_length if one.num_steps == 5)
    return Statement(
        "five steps pay",
        "break-even is 27.8 / 11.1 = 2.5 tokens a cycle; below, speculation loses to 90 tok/s",
        f"break-even {even:.2f}; {asked.recommendation.action}: {asked.recommendation.why}",
        even is not None and abs(even - 2.5) < 0.01 and asked.recommendation.action == "turn speculation off",
    )


def _parts(model: CostModel) -> Statement:
    pairs = model.groups[0].identifiability.confounded
    return Statement(
        "the share of the draft follows from one step count",
        "one step count cannot say how much of the cycle is draft",
        "cannot be told apart: " + "; ".join(f"{first} and {second}" for first, second in pairs),
        ("draft_forward_us", "verify_token_us") in pairs,
    )


def _draft_tp(model: CostModel) -> Statement:
    answer = predict(model, Question(accept_rate=0.36, verify_share=0.95)).draft_tp
    gain = answer.most_gain
    return Statement(
        "the draft on TP8 pays PCIe all-reduces, so run it on fewer GPUs",
        "with verify at 95 %, even a free draft gains at most 5 %",
        answer.why,
        gain is not None and abs(gain - 0.053) < 0.01,
    )


def _offline(inspection: Inspection) -> Statement:
    found: list[AcceptanceAudit] = [one for run in inspection.runs for one in run.acceptance_audit]
    one = found[0]
    return Statement(
        "a head that is right 77 % of the time gives far more than 1.6 tokens a cycle",
        "0.77 in a chain of 5 would be 3.4, heads fall 5 to 16 % short; such a gap is a fault, no tuning",
        f"{one.measured:.2f} where {one.expected_lo:.2f} to {one.expected_hi:.2f} are expected: "
        f"{one.verdict}: {one.why}",
        one.verdict == "fault" and abs(one.expected_hi - 3.4) < 0.1,
    )


def _plain(asked: Forecast) -> Statement:
    speed = asked.baseline.tok_s
    return Statement(
        "plain decoding, same server",
        "90 tok/s; 88.8 when taken again",
        f"{speed.value:.1f} tok/s ({speed.lo:.1f} to {speed.hi:.1f})",
        speed.lo is not None and speed.hi is not None and speed.lo <= 88.8 <= 90 <= speed.hi,
    )


def _mean_of_prompts(asked: Forecast) -> Statement:
    five = _at(asked, 5)
    speed, cycle = five.tok_s, five.cycle_ms.value or 0.0
    return Statement(
        "5 steps, 6 draft tokens",
        "71.3 tok/s over five prompts (66 to 75), 79.3 on the line of rate 0.36",
        f"{speed.value:.1f} tok/s ({speed.lo:.1f} to {speed.hi:.1f}) at 2.16 tokens a cycle; 71.3 are "
        f"{71.3 * cycle / 1000:.2f} tokens in its cycle of {cycle:.1f} ms",
        speed.lo is not None and speed.hi is not None and speed.lo <= 79.28 <= speed.hi,
    )


def _wrong_states(model: CostModel) -> Statement:
    five = _at(predict(model, Question(accept_rate=0.19)), 5)
    cycle = five.cycle_ms.value or 0.0
    lengths = " to ".join(f"{speed * cycle / 1000:.2f}" for speed in (46.7, 54.8))
    return Statement(
        "5 steps, the draft fed the wrong hidden states, accept rate about 0.19",
        "46.7 to 54.8 tok/s, far below plain decoding; the rate is not of the same windows",
        f"{five.tok_s.value:.1f} tok/s at rate 0.19; those speeds are {lengths} tokens in its cycle of "
        f"{cycle:.1f} ms: a rate of 0.22 to 0.25",
        None,
    )


def _tuned(model: CostModel) -> Statement:
    try:
        asked = predict(model, Question(accept_rate=0.36, allreduce_scale=0.5))
        said, refused = asked.recommendation.why, False
    except UndeterminedError as error:
        said, refused = str(error), True
    return Statement(
        "collectives tuned",
        "verify about 27 % shorter, which no file foretells",
        said,
        None if refused else False,
    )


def _two_steps(model: CostModel) -> Statement:
    try:
        said = predict(model, Question(accept_rate=0.36, steps=(2,))).recommendation.why
        refused = False
    except UndeterminedError as error:
        said, refused = str(error), True
    return Statement(
        "2 steps, 3 draft tokens",
        "94 tok/s with collectives tuned, which the files do not hold",
        said,
        None if refused else False,
    )


def statement_lines(found: list[Statement]) -> Iterator[str]:
    """Yield each statement with what is known and what the toolkit says."""
    for one in found:
        yield f"- {one.stated}"
        yield f"  - known: {one.known}"
        yield f"  - toolkit: {one.said}{' (DOES NOT AGREE)' if one.agrees is False else ''}"
    told = [one for one in found if one.agrees is not None]
    yield (
        f"\n{sum(one.agrees is True for one in told)} of {len(told)} statements agree with what is known; of "
        f"{len(found) - len(told)} the files cannot speak, which is said."
    )
