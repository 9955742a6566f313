"""Figures, one question each: functions from records to a matplotlib Figure. Loaded when first used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.figures.accept_length_map import accept_length_map_figure
    from toolkit.figures.acceptance import acceptance_figure
    from toolkit.figures.against_plain import against_plain_figure
    from toolkit.figures.allreduce import allreduce_figure
    from toolkit.figures.batch_map import batch_map_figure
    from toolkit.figures.checked import checked_figure
    from toolkit.figures.comparison import comparisons
    from toolkit.figures.cycle import cycle_figure
    from toolkit.figures.draft_tp import draft_tp_figure
    from toolkit.figures.fitted import fitted_figure
    from toolkit.figures.positions import with_positions
    from toolkit.figures.throughput import throughput_figure

__all__ = [
    "accept_length_map_figure",
    "acceptance_figure",
    "against_plain_figure",
    "allreduce_figure",
    "batch_map_figure",
    "checked_figure",
    "comparisons",
    "cycle_figure",
    "draft_tp_figure",
    "fitted_figure",
    "throughput_figure",
    "with_positions",
]
_CHOOSING = {"comparisons": "comparison", "with_positions": "positions"}  # no figures, but what to draw


def __getattr__(name: str) -> object:
    """Return a function from its module: matplotlib is imported with the first figure."""
    if name not in __all__:
        raise AttributeError(f"module 'toolkit.figures' has no attribute {name!r}")
    import importlib

    module = _CHOOSING.get(name, name.removesuffix("_figure"))
    return getattr(importlib.import_module(f"toolkit.figures.{module}"), name)
