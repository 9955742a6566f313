"""What is asked of a fitted model and what `toolkit predict` answers (toolkit.forecast/1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FORECAST_SCHEMA = "toolkit.forecast/1"
RateKind = Literal["log", "draft", "conditional"]
Action = Literal["use", "tie", "no change", "turn speculation off", "cannot tell"]
How = Literal["flags", "plugin", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row asked for by name: None is 'as the question says'."""

    row: int
    engine: str | None = None
    model: str | None = None
    gpu: str | None = None
    draft_model: str | None = None
    tp_size: int | None = None
    draft_tp: int | None = None
    num_steps: int
    num_draft_tokens: int | None = None
    topk: int | None = None
    batch_size: int | None = None
    context_tokens: int | None = None
    accept_length: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything the user typed; None is 'not said'. Exactly one way of giving acceptance, or none."""

    accept_rate: float | None = None
    accept_length: float | None = None
    accept_by_position: tuple[float, ...] | None = None
    rate_kind: RateKind = "log"
    at_num_draft_tokens: int | None = None
    batch_size: int | None = None
    context_tokens: int | None = None
    tp_size: int | None = None
    engine: str | None = None
    model_name: str | None = None
    gpu: str | None = None
    draft_model: str | None = None
    current_steps: int | None = None
    verify_share: float | None = None
    steps: tuple[int, ...] | None = None
    topk: int | None = None
    draft_tp: tuple[int, ...] = ()
    scenarios: tuple[Scenario, ...] | None = None
    allreduce_us: float | None = None
    allreduce_scale: float | None = None
    anyway: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with the ends of its 90 % interval; all None when nothing can be said."""

    value: float | None
    lo: float | None
    hi: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceUsed:
    """How the acceptance given was read. `readings` are accept lengths under each reading of the rate."""

    given: float | None
    kind: str | None
    accept_length: float | None
    source: str | None
    readings: dict[str, float | None]
    num_steps: int | None = None
    num_draft_tokens: int | None = None
    convention: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """Whether an engine can be set to a candidate, and the flags to paste."""

    engine: str | None
    how: How
    flags: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setting and its forecast. `extrapolated` says in words where the model leaves what it saw.

    `determined` False: lo and hi are the range that the data leaves open, value its middle.
    """

    num_steps: int
    num_draft_tokens: int
    topk: int
    draft_tp: int | None
    batch_size: int
    context_tokens: int | None
    accept_length: float | None
    cycle_ms: Interval
    tok_s: Interval
    p_best: float | None
    extrapolated: tuple[str, ...]
    reachable: Reachable
    determined: bool = True
    row: int | None = None
    draft_ms: Interval | None = None  # draft and extend of a cycle, collectives included


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Plain decoding in the same situation."""

    tok_s: Interval
    cycle_ms: Interval
    determined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """The accept length at which speculation with `num_steps` is as fast as plain decoding.

    `draft_tp` as in the candidate that it belongs to.
    """

    num_steps: int
    accept_length: float | None
    lo: float | None = None
    hi: float | None = None
    draft_tp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to do. `candidate` indexes `Forecast.candidates`; `gain` is a fraction of `relative_to`."""

    action: Action
    candidate: int | None
    gain: Interval
    why: str
    relative_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTpSize:
    """The draft at one other TP size, by runs or a calibration. `gain` is of tokens per second, paired."""

    draft_tp: int
    draft_ms: Interval
    cycle_ms: Interval
    gain: Interval
    weight_bytes: int | None  # of the draft, on each GPU
    reachable: Reachable


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTpAnswer:
    """Where the draft should run. `most_gain` is what a free draft would gain, as a fraction.

    `best` is the fastest of `sizes`, the others that could be forecast as values; `tie`: its gain may be
    none. `break_even_allreduce` has the interval of `break_even_allreduce_us`.
    """

    recommendation: int | None
    break_even_allreduce_us: float | None
    why: str
    draft_share: float | None = None
    most_gain: float | None = None
    best: int | None = None
    tie: bool = False
    sizes: tuple[DraftTpSize, ...] = ()
    break_even_allreduce: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The object `predict --json` prints."""

    schema: str = FORECAST_SCHEMA
    inputs: dict[str, object]
    acceptance: AcceptanceUsed
    candidates: tuple[Candidate, ...]
    baseline: Baseline
    break_even_accept_length: tuple[BreakEven, ...]
    recommendation: Recommendation
    draft_tp: DraftTpAnswer
    warnings: tuple[str, ...] = ()
