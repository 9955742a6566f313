"""`toolkit inspect`: where a cycle's time goes."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.number_lists import finite
from toolkit.cli.perfetto_file import PERFETTO, write_for_perfetto
from toolkit.cli.plotting import PLOT, write_plots
from toolkit.cli.trace_options import DASK, NO_CACHE
from toolkit.cli.warning_lines import print_warnings
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.schema.inspection import Inspection


@click.command("inspect")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (toolkit.inspect/1).")
@click.option(
    "--lines", is_flag=True, help="Print what each line of one server log says, a JSON object a line."
)
@click.option(
    "--offline-accuracy",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    callback=finite,
    metavar="P",
    help="Share of next tokens that the draft head gets right offline: does the server reach what it should?",
)
@PLOT
@PERFETTO
@click.option("--overwrite", is_flag=True, help="Replace existing figures and files.")
@NO_CACHE
@DASK
def inspect_command(
    paths: tuple[Path, ...],
    as_json: bool,
    lines: bool,
    offline_accuracy: float | None,
    plot: Path | None,
    perfetto: Path | None,
    overwrite: bool,
    no_cache: bool,
    dask: str | None,
) -> None:
    """Show where the time of a decode cycle goes.

    PATH is a run folder, a folder of run folders, or single files: torch profiler traces (one a
    rank), server logs, spans, client.json, measurements.csv. Below a folder of run folders, one that
    cannot be read is left out with a warning.

    \b
    toolkit inspect traces/2026-11-29-sglang-llama8b-dummy-tp2-k3-b1
    toolkit inspect server.log --lines
    toolkit inspect traces/my-run --offline-accuracy 0.77
    toolkit inspect traces/my-run --perfetto my-run.json.gz

    Next: `toolkit model fit` with the same paths; docs/measures.md says what each number is and how it
    can mislead.
    """
    if lines:
        _print_lines(paths, writes_files=plot is not None or perfetto is not None)
        return
    from toolkit.api import inspect_paths

    if perfetto is not None:
        write_for_perfetto(paths, perfetto, overwrite=overwrite)
    inspection = inspect_paths(
        paths,
        offline_accuracy=offline_accuracy,
        cache=not no_cache,
        dask_address=dask,
        while_reading=partial(_import_all, as_json),
    )
    print_warnings(inspection.warnings)
    if plot is not None:
        _plot(inspection, plot, overwrite=overwrite)
    _print(inspection, as_json)


def _print(inspection: Inspection, as_json: bool) -> None:
    if as_json:
        from toolkit.report.json_text import json_text

        click.echo(json_text(inspection))
    else:
        from toolkit.report.inspect_text import inspection_text

        click.echo(inspection_text(inspection))


def _import_all(as_json: bool) -> None:
    """Import what analyses and prints, while other processes read."""
    importlib.import_module("toolkit.analysis.inspect_run")
    importlib.import_module("toolkit.report.json_text" if as_json else "toolkit.report.inspect_text")


def _plot(inspection: Inspection, folder: Path, *, overwrite: bool) -> None:
    """Write the figures of the runs; of many, single cycles are drawn for the first few."""
    from toolkit.figures.drawings import inspection_drawings, left_out_cycles

    write_plots(folder, inspection_drawings(inspection), overwrite=overwrite)
    if left_out := left_out_cycles(inspection):
        click.echo(f"toolkit: cycles of {left_out} more are not drawn; give fewer runs to see them", err=True)


def _print_lines(paths: tuple[Path, ...], *, writes_files: bool) -> None:
    """Print the lines of one log as JSON objects."""
    if writes_files:
        raise UsageError("--lines prints what a log says and writes no file; leave out --plot and --perfetto")
    from toolkit.api import log_lines
    from toolkit.report.json_text import json_text

    if len(paths) != 1 or paths[0].is_dir():
        raise UsageError("--lines reads one server log; give the path of the log file alone")
    for line in log_lines(paths[0]):
        click.echo(json_text(line))
