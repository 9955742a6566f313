"""`toolkit calibrate`: measure this host without a server."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from toolkit.cli.number_lists import whole_list
from toolkit.cli.options import with_options
from toolkit.cli.plotting import PLOT, refuse_plots, write_plots
from toolkit.cli.progress import Progress
from toolkit.errors import BadInputError, CaptureError

_MODEL_SIZES = (
    "layers",
    "hidden",
    "intermediate",
    "heads",
    "kv_heads",
    "vocab",
    "draft_layers",
    "draft_vocab",
)
_MULTIPLES = {"": 1, "k": 1 << 10, "m": 1 << 20}
_CPU_SIZES, _GPU_SIZES = (10, 16), (10, 22)  # powers of two: a socket takes milliseconds for the larger ones


def _byte_list(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Return sizes in bytes: 1K,64K,4M or 4096."""
    found = []
    for part in text.split(",") if text is not None else ():
        digits = part.strip().lower().removesuffix("b").rstrip("km")
        unit = part.strip().lower().removesuffix("b")[len(digits) :]
        if not digits.isdecimal() or len(digits) > 9 or not int(digits) or unit not in _MULTIPLES:
            raise click.BadParameter(f"{part.strip()[:40]!r} is no size; write 1K,64K,4M")
        found.append(int(digits) * _MULTIPLES[unit])
    return tuple(found)


_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        default=Path("traces"),
        show_default=True,
        help="Folder of runs.",
    ),
    click.option(
        "--tp",
        "tp_sizes",
        callback=whole_list,
        metavar="1,2,4,8",
        help="Tensor-parallel sizes; beyond the GPUs, forwards without collectives.",
    ),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Target: config.json or its folder.  [default: a tiny one]",
    ),
    click.option(
        "--draft-config",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Draft.  [default: the target's sizes, one layer]",
    ),
    *(
        click.option("--" + name.replace("_", "-"), type=click.IntRange(min=1), help="Overrides that size.")
        for name in _MODEL_SIZES
    ),
    click.option("--batch-size", "batch_sizes", callback=whole_list, metavar="1,8", help="Batch sizes."),
    click.option("--steps", "step_counts", callback=whole_list, metavar="3", help="Draft step counts."),
    click.option(
        "--context",
        type=click.IntRange(1, 1 << 20),
        default=256,
        show_default=True,
        help="Tokens of a request.",
    ),
    click.option("--sizes", callback=_byte_list, metavar="1K,64K,4M", help="Sizes of messages."),
    click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True),
    click.option(
        "--dtype",
        type=click.Choice(["bfloat16", "float16", "float32"]),
        help="Of weights.  [default: the config's; float32 on the CPU]",
    ),
    click.option(
        "--gpus", type=click.IntRange(1, 64), help="GPUs to use (on the CPU: ranks).  [default: all]"
    ),
    click.option("--quick", is_flag=True, help="Fewer sizes, one batch size, fewer repeats."),
    PLOT,
    click.option("--overwrite", is_flag=True, help="Replace a run folder of the same name and figures."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object (toolkit.calibration/1)."),
]


@click.command("calibrate")
@with_options(_OPTIONS)
def calibrate_command(out: Path, plot: Path | None, overwrite: bool, as_json: bool, **asked: Any) -> None:
    """Measure this host without a server.

    Collectives by algorithm, size and group, memory bandwidth, and single draft and verify forwards at
    each tensor-parallel size, with and without their collectives. Needs torch.

    \b
    toolkit calibrate --config models/llama-8b --batch-size 1,8

    Next: give its run folder to `toolkit model fit` beside profiled runs of the same GPU, and ask
    `toolkit predict` with --draft-tp.
    """
    from toolkit.cli.ending import terminated_as_interrupted
    from toolkit.figures.drawings import CALIBRATION_NAMES, calibration_drawings
    from toolkit.live.calibrating import run_calibration
    from toolkit.live.calibration_folder import write_calibration
    from toolkit.live.run_folder import require_place
    from toolkit.report.calibration_text import calibration_text
    from toolkit.report.json_text import json_text

    for path in (asked["config"], asked["draft_config"]):
        if path is not None and not path.exists():
            raise BadInputError(f"{path} does not exist; give a model's config.json or its folder")
    if importlib.util.find_spec("torch") is None:
        raise CaptureError("calibrating runs forwards of a model, which needs torch; install toolkit[torch]")
    require_place(out)
    refuse_plots(plot, CALIBRATION_NAMES, overwrite=overwrite)
    progress, begin = Progress(), time.monotonic()
    try:
        with terminated_as_interrupted():
            found, engine_version = run_calibration(_arguments(asked), progress.say)
    finally:
        progress.clear()
    seconds = time.monotonic() - begin
    folder = write_calibration(out, found, engine_version, seconds, overwrite=overwrite)
    write_plots(plot, calibration_drawings(found), overwrite=overwrite)
    click.echo(json_text(found) if as_json else calibration_text(found, str(folder)))


def _arguments(asked: dict[str, Any]) -> list[str]:
    """Return the command line of the program that measures."""
    on_cpu, quick = asked["device"] == "cpu", asked["quick"]
    first, last = _CPU_SIZES if on_cpu else _GPU_SIZES
    every = 3 if quick else 2 if on_cpu else 1
    lists = {
        "--tp-sizes": asked["tp_sizes"] or ((1, 2) if on_cpu else (1, 2, 4, 8)),
        "--batch-sizes": asked["batch_sizes"] or ((1,) if quick else (1, 8)),
        "--step-counts": asked["step_counts"] or (3,),
        "--message-bytes": asked["sizes"] or tuple(1 << power for power in range(first, last + 1, every)),
    }
    arguments = ["--device", asked["device"], "--context", str(asked["context"])]
    arguments += ["--repeats", "5" if quick else "10" if on_cpu else "20"]
    for name, values in lists.items():
        arguments += [name, ",".join(map(str, values))]
    for name in ("config", "draft_config", "dtype", "gpus", *_MODEL_SIZES):
        if asked[name] is not None:
            arguments += ["--" + name.replace("_", "-"), str(asked[name])]
    return arguments
