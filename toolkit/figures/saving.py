"""Figures to PNG and SVG: the same bytes for the same figure, existing files kept."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.figures.drawings import Drawing
from toolkit.ingest.model_file import refuse_existing, write_new_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What would differ between two runs or two releases of matplotlib is left out.
_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def figure_paths(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the files of figures with these names."""
    return [folder / f"{name}.{ending}" for name in names for ending in _METADATA]


def refuse_existing_figures(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    """Raise UsageError if a figure's file exists, before anything is drawn."""
    for path in figure_paths(folder, names):
        refuse_existing(path, overwrite=overwrite)


def save_drawings(folder: Path, drawings: Sequence[Drawing], *, overwrite: bool = False) -> list[Path]:
    """Draw and write every figure as PNG and SVG and return the files; see `refuse_existing_figures`.

    The folder is made where it does not exist.
    """
    names = [one.name for one in drawings]
    refuse_existing_figures(folder, names, overwrite=overwrite)
    for one in drawings:
        figure = one.draw()
        for ending in _METADATA:
            path = folder / f"{one.name}.{ending}"
            write_new_bytes(path, figure_bytes(figure, ending), overwrite=overwrite)
    return figure_paths(folder, names)


def figure_bytes(figure: Figure, ending: str = "png", *, dots_per_inch: float | None = None) -> bytes:
    """Return a figure as a PNG or SVG file in the toolkit's style, whatever the reader's own settings are."""
    from toolkit.figures.style import in_style

    out = io.BytesIO()
    with in_style():
        figure.savefig(out, format=ending, dpi=dots_per_inch or "figure", metadata=_METADATA[ending])
    return out.getvalue()
