"""What makes two measurements of one run the same configuration."""

from __future__ import annotations

from typing import NamedTuple

from toolkit.analysis.cells.context import context_bin
from toolkit.schema.inspection import Configuration


class CellKey(NamedTuple):
    """Batch, padded batch, step count and context bin; None is 'not known'."""

    batch_size: int | None
    padded_batch_size: int | None
    num_steps: int | None
    context_bin: int | None


def key_of(configuration: Configuration) -> CellKey:
    """Return the key of a configuration."""
    return CellKey(
        configuration.batch_size,
        configuration.padded_batch_size,
        configuration.num_steps,
        context_bin(configuration.context_tokens),
    )


def agree(first: CellKey, second: CellKey) -> bool:
    """Return whether two keys can mean one configuration: an unknown part agrees with anything."""
    return all(a is None or b is None or a == b for a, b in zip(first, second, strict=True))
