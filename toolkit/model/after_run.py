"""What one more run would determine: the directions that no run sees, before it and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.model.fitted import Fitted, Matrix
from toolkit.model.summed_cycle import DETERMINED
from toolkit.model.terms import Setting, Vector, cycle_vector
from toolkit.schema.cost import Identifiability

# terms that every group has once runs of both kinds are there
LASTING = ("decode_us", "draft_forward_us", "draft_extend_us", "verify_us", "verify_token_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Rows of `null` span what is open, in coefficients divided by `norms`."""

    columns: tuple[str, ...]
    norms: Vector
    null: Matrix

    def holds(self, factors: Vector) -> bool:
        """Return whether the sum of the terms times `factors` is open."""
        scaled = factors / self.norms
        return float(np.linalg.norm(self.null @ scaled)) > DETERMINED * float(np.linalg.norm(scaled))

    def holds_term(self, name: str) -> bool:
        """Return whether one term alone is open."""
        return self.holds(np.array([float(column == name) for column in self.columns]))

    def after(self, at: Setting) -> Unseen:
        """Return what is still open when the cycle of `at` was measured, and nothing inside it."""
        seen = self.null @ (cycle_vector(self.columns, at) / self.norms)
        if not self.holds(cycle_vector(self.columns, at)):
            return self
        _, _, turned = np.linalg.svd(seen[None, :])
        return Unseen(columns=self.columns, norms=self.norms, null=turned[1:] @ self.null)


def unseen(fitted: Fitted) -> Unseen:
    """Return what the runs of a fit leave open, in its terms and those that no run touched."""
    missing = [name for name in LASTING if name not in fitted.columns]
    width = len(fitted.columns)
    null = np.zeros((len(fitted.null) + len(missing), width + len(missing)))
    null[: len(fitted.null), :width] = fitted.null
    null[len(fitted.null) :, width:] = np.eye(len(missing))
    typical = float(np.median(fitted.norms)) if width else 1.0
    return Unseen(
        columns=(*fitted.columns, *missing),
        norms=np.concatenate([fitted.norms, np.full(len(missing), typical)]),
        null=null,
    )


def one_step(columns: Sequence[str], at: Setting) -> Vector:
    """Return the factors of what one more step of a chain costs at the batch and context of `at`."""
    costs = [
        cycle_vector(
            columns,
            Setting(
                num_steps=steps,
                num_draft_tokens=steps + 1,
                topk=1,
                batch_size=at.batch_size,
                context_tokens=at.context_tokens,
                overlap=at.overlap,
                shape=at.shape,
            ),
        )
        for steps in (1, 2)
    ]
    return np.asarray(costs[1] - costs[0])


def what_it_tells(at: Setting, names: Sequence[str], now: Unseen, told: Identifiability) -> str:
    """Return what the cycle of a run at `at` says; `names` are the terms that it narrows most.

    Terms that stay open one by one are only promised as the sum that holds them.
    """
    if not names:
        return "pins the far end"
    then = now.after(at)
    closed = [name for name in names if now.holds_term(name) and not then.holds_term(name)]
    if closed:
        pair = next((pair for pair in told.confounded if set(pair) & set(closed)), None)
        apart = f", so far not told apart from {_other(pair, closed[0])}" if pair and len(closed) == 1 else ""
        return f"determines {' and '.join(closed)}{apart}"
    known = [name for name in names if not then.holds_term(name)]
    if known:
        return f"tells more of {' and '.join(known)}"
    step = one_step(now.columns, at)
    if {"draft_forward_us", "verify_token_us"} & set(names) and not then.holds(step):
        tells = "tells" if now.holds(step) else "narrows"
        return f"{tells} what one more step costs, not how draft_forward_us and verify_token_us share it"
    return f"tells the sum that holds {' and '.join(names)}, not each"


def _other(pair: tuple[str, str], name: str) -> str:
    return pair[1] if pair[0] == name else pair[0]
