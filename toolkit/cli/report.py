"""`toolkit report`: everything that runs tell on one page that opens offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from toolkit.cli.options import with_options
from toolkit.cli.places import refuse_missing_folder
from toolkit.cli.plotting import PLOT, refuse_plots, write_plots
from toolkit.cli.question_options import QUESTION_OPTIONS, refuse_two_acceptances
from toolkit.cli.trace_options import NO_CACHE


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="Where the page goes.",
)
@PLOT
@click.option("--overwrite", is_flag=True, help="Replace an existing page and figures.")
@click.option(
    "--model",
    "model_path",
    type=click.Path(path_type=Path),
    help="Fitted model to forecast with; without it the runs are fitted.",
)
@with_options(QUESTION_OPTIONS)
@click.option("--anyway", is_flag=True, help="Answer although the runs do not determine it, marked.")
@NO_CACHE
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def report_command(
    paths: tuple[Path, ...],
    output: Path,
    plot: Path | None,
    overwrite: bool,
    model_path: Path | None,
    no_cache: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Write one page: where time goes, and what pays.

    PATH as for `toolkit inspect` and `toolkit model fit`: run folders, traces, logs, tables,
    calibrations. The page opens offline; runs that nothing can be fitted to are shown as they are.

    \b
    toolkit report traces/ --accept-rate 0.36 -o report.html

    Next: open the page in a browser, or send it to somebody; it is one file.
    """
    from toolkit.cli.report_facts import report_facts, typed_options, written
    from toolkit.figures.drawings import report_drawings
    from toolkit.ingest.model_file import refuse_existing, write_new_text
    from toolkit.report.json_text import json_text
    from toolkit.report.page.page import report_page
    from toolkit.report.written_text import written_text
    from toolkit.schema.forecast import Question

    refuse_two_acceptances(asked)
    refuse_existing(output, overwrite=overwrite)
    refuse_missing_folder(output)
    options = typed_options(click.get_current_context())
    facts = report_facts(paths, model_path, Question(**asked), options, cache=not no_cache)
    drawings = [] if plot is None else report_drawings(facts)
    refuse_plots(plot, [one.name for one in drawings], overwrite=overwrite)
    page = report_page(facts)
    write_new_text(output, page, overwrite=overwrite)
    write_plots(plot, drawings, overwrite=overwrite)
    report = written(facts, output, page)
    if as_json:
        click.echo(json_text(report))
        return
    click.echo(written_text(facts, report))
