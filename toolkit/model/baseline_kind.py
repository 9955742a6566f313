"""Plain decoding of another kind of server than the speculative one: said, and priced where that can be.

Without the overlap scheduler host and GPU take turns, so such a step is longer than the step that the
speculative server would take without speculation, by at most the host's time in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.cell import Cell
from toolkit.model.fit_cells import FitDetail
from toolkit.units import ms_from_us


def baseline_warning(detail: FitDetail) -> list[str]:
    """Return a sentence where plain decoding and speculation differ in the overlap scheduler."""
    plain, speculative = (_kinds(detail.cells, steps=steps) for steps in (False, True))
    if not plain or not speculative or plain & speculative:
        return []
    if plain == {False}:
        return [
            "plain decoding was run without the overlap scheduler and speculation with it: such a step is "
            f"no baseline of that server, {_without_price(detail)}"
        ]
    return [
        "plain decoding was run with the overlap scheduler and speculation without it: a part of what they "
        "differ by is the scheduler's, not speculation's; run both alike to tell which"
    ]


def _kinds(cells: Sequence[Cell], *, steps: bool) -> set[bool]:
    return {cell.overlap for cell in cells if (cell.num_steps > 0) == steps}


def _without_price(detail: FitDetail) -> str:
    """Return what is known of the step with the scheduler, and what would tell it."""
    columns = detail.fitted.columns
    wanted = "run plain decoding with the scheduler too"
    if "host_plain_us" not in columns:
        return f"whose own step may be shorter by all the host takes, so none is taken; {wanted}"
    host = float(detail.fitted.solution[columns.index("host_plain_us")])
    return f"whose own step is shorter by up to the host's {ms_from_us(host):.2f} ms: a range; {wanted}"
