"""What `toolkit demo` predicted and then measured (toolkit.demo/1)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.schema.forecast import Action
from toolkit.schema.profile import Estimate

DEMO_SCHEMA = "toolkit.demo/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The step count that was run, and the recommendation it comes from ("cannot tell": the fastest)."""

    num_steps: int
    num_draft_tokens: int
    action: Action
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The prediction beside the measurement; plain decoding, measured right after it, says what the host did.

    `inside`: the measured value lies in the predicted interval.
    """

    schema: str = DEMO_SCHEMA
    ranks: int
    recommended: Tried
    predicted_tok_s: Estimate
    measured_tok_s: Estimate
    inside: bool
    baseline_predicted_tok_s: Estimate
    baseline_tok_s: Estimate
    baseline_inside: bool
    kept: str | None
