"""What makes two measurements of one run the same configuration."""

from __future__ import annotations

from typing import NamedTuple

from toolkit.analysis.cells.context import context_bin
from toolkit.schema.inspection import Configuration

TARGET = ("verify", "decode")  # phases whose forward is the target model's


class CellKey(NamedTuple):
    """Batch, padded batch, step count, context bin and whether a graph is replayed; None is 'not known'."""

    batch_size: int | None
    padded_batch_size: int | None
    num_steps: int | None
    context_bin: int | None
    graph: bool | None = None


def key_of(configuration: Configuration) -> CellKey:
    """Return the key of a configuration."""
    return CellKey(
        configuration.batch_size,
        configuration.padded_batch_size,
        configuration.num_steps,
        context_bin(configuration.context_tokens),
        configuration.graph,
    )


def in_graph(configuration: Configuration) -> bool | None:
    """Return whether the target's forward was replayed as a captured graph; None if nothing tells."""
    if configuration.graph is not None:
        return configuration.graph
    phases = [rank.phases for rank in configuration.ranks]
    told = {own[name].graph for own in phases for name in TARGET if name in own} - {None}
    return all(told) if told else None


def agree(first: CellKey, second: CellKey) -> bool:
    """Return whether two keys can mean one configuration: an unknown part agrees with anything."""
    return all(a is None or b is None or a == b for a, b in zip(first, second, strict=True))
