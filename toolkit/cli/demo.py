"""`toolkit demo`: the whole loop on the reference engine, on the CPU."""

from __future__ import annotations

import importlib.util
import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from toolkit.cli.ending import terminated_as_interrupted
from toolkit.cli.number_lists import share_list
from toolkit.errors import CaptureError, UsageError

_CURVE = (0.85, 0.72, 0.61, 0.52, 0.44)  # shares of cycles that keep draft 1, 2, ...
_MOST_RANKS = 4  # the engine's built-in model has four heads


@click.command("demo")
@click.option(
    "--accept-by-position",
    "curve",
    callback=share_list,
    metavar="0.85,0.72",
    help="Acceptance to simulate: shares of cycles that keep draft 1, 2, ...",
)
@click.option(
    "--ranks",
    type=click.IntRange(1, _MOST_RANKS),
    help="Tensor-parallel ranks of the engine.  [default: 2 with four cores or more, else 1]",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Keep the run folders here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (toolkit.demo/1).")
def demo_command(curve: tuple[float, ...] | None, ranks: int | None, out: Path | None, as_json: bool) -> None:
    """Go round the whole loop on this CPU.

    Serve, profile by process id, fit, predict, run what is recommended, compare.

    The reference engine on the CPU; needs torch, and about a minute.

    \b
    toolkit demo

    Next: the same with a server of your own, word by word in docs/quick-start-sglang.md and
    docs/quick-start-vllm.md.
    """
    shares = curve or _CURVE
    if any(not 0 <= share <= 1 for share in shares) or list(shares) != sorted(shares, reverse=True):
        raise UsageError(
            "--accept-by-position must fall from position to position, between 0 and 1; write 0.8,0.6,0.5"
        )
    if out and (out.is_file() or (out.is_dir() and any(out.iterdir()))):
        raise UsageError(f"--out {out} is there already; name a folder that is not, or is empty")
    if importlib.util.find_spec("torch") is None:
        raise CaptureError("the demo starts the reference engine, which needs torch; install toolkit[torch]")
    from toolkit.cli.demo_loop import Loop, default_ranks

    with terminated_as_interrupted(), nullcontext(out) if out else _scratch() as folder:
        result = Loop(Path(folder), shares, ranks or default_ranks(), keep=out is not None).play()
    if as_json:
        from toolkit.report.json_text import json_text

        click.echo(json_text(result))
    else:
        from toolkit.report.demo_text import demo_text

        click.echo(demo_text(result))


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="toolkit-demo-")
