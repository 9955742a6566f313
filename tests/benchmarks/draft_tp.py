"""The draft at another TP: fitted on runs of one, predicted by a calibration, and measured.

`tests/data/draft-tp`: the reference engine on two H200, a target of 8 layers, two drafts (a one-layer EAGLE
of 0.77 GB and a small one of 0.27 GB), all-reduces of NCCL and one-shot over symmetric memory, draft TP 1
and 2 of each; plain decoding; a calibration with each draft.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.api import inspect_paths
from toolkit.model.check import check_model
from toolkit.model.fit import fit_cost_model
from toolkit.recommend.answer import predict
from toolkit.schema.cost import CheckedCell
from toolkit.schema.forecast import Interval, Question

CASES = {"nccl": "eagle", "one": "eagle", "small": "small", "small-one": "small"}
_STEPS, _DRAFT_TOKENS, _ACCEPT_LENGTH = 3, 4, 2.0  # of every run; the length scales all forecasts alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One batch size of one case, fitted at `fitted_tp` and predicted at the other; times in ms.

    Gains are of tokens per second by going to the other TP, as fractions.
    """

    case: str
    fitted_tp: int
    batch_size: int
    draft_ms: float
    predicted_draft_ms: float
    inside: bool
    gain: float
    predicted_gain: Interval
    tie: bool

    @property
    def draft_error(self) -> float:
        """Of the draft phase, extend and collectives included; a fraction."""
        return self.predicted_draft_ms / self.draft_ms - 1

    @property
    def right(self) -> bool:
        """Say whether what is chosen is the faster one, or called a tie."""
        return self.tie or ((self.predicted_gain.value or 0.0) > 0) == (self.gain > 0)


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Yield every case, both ways round, at both batch sizes."""
    for case, calibration in CASES.items():
        for fitted, other in ((2, 1), (1, 2)):
            known = [folder / f"{case}-d{fitted}", folder / "plain", folder / f"calibration-{calibration}"]
            model = fit_cost_model(inspect_paths(known))
            there = check_model(model, inspect_paths([folder / f"{case}-d{other}"]), "fit").configurations
            here = check_model(model, inspect_paths([folder / f"{case}-d{fitted}"]), "fit").configurations
            for batch in (1, 8):
                asked = Question(
                    accept_length=_ACCEPT_LENGTH,
                    at_num_draft_tokens=_DRAFT_TOKENS,
                    steps=(_STEPS,),
                    current_steps=_STEPS,
                    batch_size=batch,
                    anyway=True,
                )
                answer = predict(model, asked).draft_tp
                (size,) = [one for one in answer.sizes if one.draft_tp == other]
                measured, own = _of_batch(there, batch), _of_batch(here, batch)
                assert measured.draft is not None and size.gain is not None
                yield Outcome(
                    case=case,
                    fitted_tp=fitted,
                    batch_size=batch,
                    draft_ms=measured.draft.measured_ms,
                    predicted_draft_ms=measured.draft.predicted_ms,
                    inside=measured.draft.inside,
                    gain=own.measured_ms / measured.measured_ms - 1,
                    predicted_gain=size.gain,
                    tie=answer.tie,
                )


def _of_batch(cells: tuple[CheckedCell, ...], batch_size: int) -> CheckedCell:
    """Return the cell of the run driven at a batch size: that of the run's name, not of its last requests."""
    return next(one for one in cells if one.batch_size == batch_size and one.run == f"b{batch_size}")


def outcome_lines(found: list[Outcome]) -> list[str]:
    """Return the table, and what it comes to."""
    lines = [
        "| case | fitted | batch | draft phase | predicted | off | inside 90 % | gain | predicted | answer |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |",
    ]
    for one in found:
        ends = one.predicted_gain
        gain = f"{ends.value or 0:+.1%} ({ends.lo or 0:+.1%} to {ends.hi or 0:+.1%})"
        verdict = "tie" if one.tie else "right" if one.right else "wrong"
        lines.append(
            f"| {one.case} | draft TP {one.fitted_tp} | {one.batch_size} | {one.draft_ms:.3f} ms "
            f"| {one.predicted_draft_ms:.3f} ms | {one.draft_error:+.1%} | {'yes' if one.inside else 'no'} "
            f"| {one.gain:+.1%} | {gain} | {verdict} |"
        )
    errors = [abs(one.draft_error) for one in found]
    lines.append(
        f"\nDraft phase off by {sum(errors) / len(errors):.1%} on average and {max(errors):.1%} at most; "
        f"{sum(one.inside for one in found)} of {len(found)} inside; "
        f"{sum(one.right for one in found)} of {len(found)} decisions right, "
        f"{sum(one.tie for one in found)} of them ties.\n"
    )
    return lines
