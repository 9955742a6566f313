"""How many drafts a cycle keeps, when that is simulated: a curve, and draws from it.

No torch here: the launcher checks a curve before it starts a rank.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from toolkit.reference.errors import SettingError


@dataclass(frozen=True, slots=True)
class AcceptanceCurve:
    """`shares[j]`: share of cycles in which draft j+1 is kept (not conditional), never rising."""

    shares: tuple[float, ...]

    def at(self, num_steps: int) -> tuple[float, ...]:
        """Return the shares of K positions; beyond the last one known its hazard goes on."""
        shares = list(self.shares[:num_steps])
        before = self.shares[-2] if len(self.shares) > 1 else 1.0
        hazard = self.shares[-1] / before if before else 0.0
        while len(shares) < num_steps:
            shares.append(shares[-1] * hazard)
        return tuple(shares)


def read_curve(text: str | None, kind: str) -> AcceptanceCurve | None:
    """Return the curve that `A,B,C` says; None for real acceptance.

    `kind` position: share of cycles in which the draft is kept; conditional: chance that it is kept
    given that all before it were.
    """
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"--accept-by-position {text} is not a list of numbers such as 0.7,0.5") from None
    if not all(0 <= value <= 1 for value in values):
        raise SettingError(f"--accept-by-position {text} holds a share outside 0 to 1")
    if kind == "conditional":
        shares, kept = [], 1.0
        for value in values:
            kept *= value
            shares.append(kept)
        return AcceptanceCurve(tuple(shares))
    if any(later > earlier for earlier, later in itertools.pairwise(values)):
        raise SettingError(
            f"--accept-by-position {text} rises, but a draft is kept only if those before it are"
        )
    return AcceptanceCurve(tuple(values))


class SimulatedAcceptance:
    """Draws correct drafts per request. Ranks that share a seed draw the same in the same order."""

    def __init__(self, curve: AcceptanceCurve, num_steps: int, seed: int) -> None:
        self.shares = curve.at(num_steps)
        self._random = random.Random(seed)

    def draw(self, batch_size: int) -> list[int]:
        """Return one count for each request.

        One uniform number u gives a whole chain: draft j is kept if u < S_j, so that each position is
        kept in its share of cycles and never without those before it.
        """
        counts = []
        for _ in range(batch_size):
            drawn = self._random.random()
            counts.append(sum(drawn < share for share in self.shares))
        return counts
