"""What `inspect --perfetto` writes."""

from __future__ import annotations

from pathlib import Path

import click

PERFETTO = click.option(
    "--perfetto",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT",
    help="Write the traces of all ranks, on one clock, as a file for ui.perfetto.dev; gzip if named .gz.",
)


def write_for_perfetto(paths: tuple[Path, ...], out: Path, *, overwrite: bool) -> None:
    """Write what the traces under `paths` hold for a viewer."""
    from toolkit.api import write_perfetto
    from toolkit.cli.places import refuse_missing_folder
    from toolkit.ingest.folders import read_all
    from toolkit.ingest.model_file import refuse_existing

    refuse_missing_folder(out)
    refuse_existing(out, overwrite=overwrite)
    recordings, _ = read_all(paths)  # what is left out is told by the inspection that follows
    write_perfetto(recordings, out, overwrite=overwrite)
