"""`toolkit model`: fit the cost model, check it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.places import refuse_missing_folder
from toolkit.cli.plotting import PLOT, refuse_plots, write_plots
from toolkit.cli.trace_options import NO_CACHE
from toolkit.cli.warning_lines import print_warnings

if TYPE_CHECKING:
    from toolkit.figures.drawings import Drawing

_PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("model")
def model_command() -> None:
    """Fit the cost model of a server's cycles, or check it.

    \b
    toolkit model fit traces/ -o cost-model.json
    toolkit model check cost-model.json traces/new-run
    """


@model_command.command("fit")
@_PATHS
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("cost-model.json"),
    show_default=True,
    help="Where the model goes.",
)
@PLOT
@click.option("--overwrite", is_flag=True, help="Replace an existing model and figures.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of the resampling behind the intervals."
)
@NO_CACHE
@_JSON
def fit_command(
    paths: tuple[Path, ...],
    output: Path,
    plot: Path | None,
    overwrite: bool,
    seed: int,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Fit the cost model to run folders, traces, logs or measurements.csv.

    \b
    toolkit model fit traces/ -o cost-model.json

    Next: `toolkit predict --accept-rate R`; the run that the fit names after "Next run" narrows it most.
    """
    from toolkit.api import inspect_paths
    from toolkit.ingest.model_file import refuse_existing, write_cost_model
    from toolkit.model.fit import fit_cost_model
    from toolkit.model.fit_report import fit_report
    from toolkit.report.fit_text import fit_text
    from toolkit.report.json_text import json_text

    refuse_existing(output, overwrite=overwrite)
    refuse_missing_folder(output)
    model = fit_cost_model(inspect_paths(paths, cache=not no_cache), seed=seed)
    drawings: list[Drawing] = []
    if plot is not None:  # matplotlib takes half a second to load
        from toolkit.figures.drawings import fit_drawings

        drawings = fit_drawings(model)
    refuse_plots(plot, [one.name for one in drawings], overwrite=overwrite)
    write_cost_model(output, model, overwrite=overwrite)
    write_plots(plot, drawings, overwrite=overwrite)
    report = fit_report(model, str(output))
    print_warnings(report.warnings)
    click.echo(json_text(report) if as_json else fit_text(report))


@model_command.command("check")
@click.argument("model_path", type=click.Path(path_type=Path), metavar="MODEL")
@_PATHS
@NO_CACHE
@_JSON
def check_command(model_path: Path, paths: tuple[Path, ...], no_cache: bool, as_json: bool) -> None:
    """Compare predicted with measured cycles on runs that the fit never saw.

    \b
    toolkit model check cost-model.json traces/new-run

    Next: where a run lies outside its interval, `toolkit inspect` that run, and fit with it.
    """
    from toolkit.api import inspect_paths
    from toolkit.ingest.model_file import read_cost_model
    from toolkit.model.check import check_model
    from toolkit.report.fit_text import check_text
    from toolkit.report.json_text import json_text

    inspection = inspect_paths(paths, cache=not no_cache)
    report = check_model(read_cost_model(model_path), inspection, str(model_path))
    print_warnings(report.warnings)
    click.echo(json_text(report) if as_json else check_text(report))
