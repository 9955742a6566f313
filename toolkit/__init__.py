"""Profiling and cost model for speculative decoding.

`from toolkit import inspect, fit, predict` gives what `toolkit.api` offers; nothing is loaded before that.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.api import (
        check,
        fit,
        inspect,
        load_model,
        log_lines,
        predict,
        predict_by_batch,
        rate_readings,
        read_runs,
        save_model,
    )

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "check",
    "fit",
    "inspect",
    "load_model",
    "log_lines",
    "predict",
    "predict_by_batch",
    "rate_readings",
    "read_runs",
    "save_model",
]


def __getattr__(name: str) -> object:
    """Return a function of `toolkit.api`, which is imported when the first of them is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("toolkit.api"), name)


def __dir__() -> list[str]:
    """Return the names of the module and those that are not loaded yet."""
    return sorted({*globals(), *__all__})
