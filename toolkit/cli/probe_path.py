"""`toolkit probe-path`: what a server needs on its PYTHONPATH."""

from __future__ import annotations

import click


@click.command("probe-path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def probe_path_command(as_json: bool) -> None:
    """Print what a server needs on its PYTHONPATH.

    It is one folder; nothing is installed anywhere.

    \b
    PYTHONPATH=$(toolkit probe-path) python -m sglang.launch_server ...

    Next: `toolkit profile --server-pid PID --dry-run` says whether the server has loaded it.
    """
    from toolkit.errors import CaptureError
    from toolkit.probe.where import site_folder

    folder = site_folder()
    if not (folder / "toolkit_probe").is_dir():
        raise CaptureError(f"{folder} is missing from this installation; install the toolkit again")
    if as_json:
        from toolkit.report.json_text import json_text

        click.echo(json_text({"schema": "toolkit.probe-path/1", "folder": str(folder)}))
    else:
        click.echo(folder)
