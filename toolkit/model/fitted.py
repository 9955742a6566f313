"""A fit as arrays: what forecasts compute with, made by `fit_cells` or read from a model file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.model.cell import Cell
from toolkit.model.terms import Setting, Vector
from toolkit.schema.cost import CollectiveCost, FittedCell, Noise

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What was seen, by family: forecasts beyond it are marked."""

    plain_batches: tuple[int, ...]
    speculative_batches: tuple[int, ...]
    steps: tuple[int, ...]
    topks: tuple[int, ...]
    contexts: tuple[tuple[int, int], ...]  # (batch, context)
    overlaps: tuple[bool, ...] = ()  # of speculative cells: whether host work was hidden
    plain_overlaps: tuple[bool, ...] = ()  # of plain ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """Log of measured over fitted cycle of one family's cells, shape (cells,); see `residuals.py`.

    `at_floor`: the host's floor sets the fitted cycle. `moves`, shape (cells, draws), is how each refit
    and a new run change them. `tau` is the standard deviation of the fit's own error, `sigma` that
    between runs, both relative.
    """

    settings: tuple[Setting, ...]
    at_floor: tuple[bool, ...]
    logs: Vector
    moves: Matrix
    tau: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Coefficients in us; see `schema.cost.GroupModel` for the meaning of each array."""

    engine: str | None
    columns: tuple[str, ...]
    norms: Vector
    solution: Vector
    null: Matrix
    vertices: Matrix
    draws: Matrix
    costs: tuple[CollectiveCost, ...]
    noise: Noise
    support: Support
    seed: int
    plain_residuals: Residuals | None = None
    speculative_residuals: Residuals | None = None


def support_of(cells: Iterable[Cell] | Iterable[FittedCell]) -> Support:
    """Return what the cells cover; batches are the padded ones."""
    seen: list[Cell | FittedCell] = list(cells)
    speculative = [cell for cell in seen if cell.num_steps > 0]
    return Support(
        plain_batches=_values(cell.padded_batch_size for cell in seen if cell.num_steps == 0),
        speculative_batches=_values(cell.padded_batch_size for cell in speculative),
        steps=_values(cell.num_steps for cell in speculative),
        topks=_values(cell.topk for cell in speculative),
        overlaps=tuple(sorted({cell.overlap for cell in speculative})),
        plain_overlaps=tuple(sorted({cell.overlap for cell in seen if cell.num_steps == 0})),
        contexts=tuple(
            sorted({(cell.padded_batch_size, cell.context_tokens) for cell in seen if cell.context_tokens})
        ),
    )


def _values(numbers: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({number for number in numbers if number is not None}))
