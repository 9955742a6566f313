"""`--plot DIR`: the figures of a result, written beside what is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.places import refuse_missing_folder

if TYPE_CHECKING:
    from toolkit.figures.drawings import Drawing

PLOT: Callable[[Any], Any] = click.option(
    "--plot",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write figures there too, as PNG and SVG.",
)


def refuse_plots(folder: Path | None, names: Iterable[str], *, overwrite: bool) -> None:
    """Raise an error in one sentence if the figures could not be written, before anything else is."""
    if folder is None:
        return
    from toolkit.figures.saving import refuse_existing_figures

    refuse_missing_folder(folder)
    refuse_existing_figures(folder, names, overwrite=overwrite)


def write_plots(folder: Path | None, drawings: Sequence[Drawing], *, overwrite: bool) -> None:
    """Write the figures and say on stderr how many there are; None writes nothing."""
    if folder is None:
        return
    refuse_plots(folder, [one.name for one in drawings], overwrite=overwrite)
    if not drawings:
        click.echo(f"toolkit: no figure for {folder}: what they show is not in the data", err=True)
        return
    from toolkit.figures.saving import save_drawings

    save_drawings(folder, drawings, overwrite=overwrite)
    count = f"{len(drawings)} figure{'s' if len(drawings) > 1 else ''}"
    click.echo(f"toolkit: wrote {count} to {folder}, each as PNG and SVG", err=True)
