"""Options of every command that reads traces."""

from __future__ import annotations

import click

NO_CACHE = click.option(
    "--no-cache",
    is_flag=True,
    help="Read traces anew, and keep nothing of them in the user's cache folder.",
)
DASK = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Read traces on the Dask cluster of that scheduler (tcp://HOST:8786), which sees the same files.",
)
