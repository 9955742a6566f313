"""`toolkit profile`: time the cycles of a running server and write run folders."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.number_lists import finite
from toolkit.cli.options import with_options
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.live.target import Target
    from toolkit.schema.profile import Load, ProfiledRun, ProfileReport

_TRACED_CYCLES = 8

_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("--server-pid", type=click.IntRange(min=1), required=True, help="A process of the server."),
    click.option("--dry-run", is_flag=True, help="Print what would be done and what each way needs."),
    click.option(
        "--cycles", type=click.IntRange(min=1), default=400, show_default=True, help="Cycles of a run."
    ),
    click.option(
        "--seconds",
        type=click.FloatRange(min=0.1),
        default=60.0,
        callback=finite,
        show_default=True,
        help="Longest run.",
    ),
    click.option("--trace", is_flag=True, help="Also trace the kernels of a few cycles on all ranks."),
    click.option(
        "--drive",
        metavar='"batch=1,4 tokens=512 context=256"',
        help="Send this load: every combination is a run. Also temperature=.",
    ),
    click.option(
        "--prompts",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Prompts to drive with, one a line; random tokens say nothing about acceptance.",
    ),
    click.option(
        "--baseline", is_flag=True, help="Also measure plain decoding, where the server can switch."
    ),
    click.option(
        "--overhead-pairs",
        type=click.IntRange(min=0),
        default=3,
        show_default=True,
        help="Pairs of driven batches, probe asleep and awake, to measure its cost.",
    ),
    click.option("--port", type=click.IntRange(1, 65535), help="HTTP port, where it cannot be told."),
    click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        default=Path("traces"),
        show_default=True,
        help="Folder of runs.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace run folders of the same name."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object (toolkit.profile/1)."),
]


@click.command("profile")
@with_options(_OPTIONS)
def profile_command(server_pid: int, dry_run: bool, as_json: bool, port: int | None, **asked: Any) -> None:
    """Time the cycles of a running server.

    Draft, verify and extend are timed on all its ranks.

    The server must have been started with PYTHONPATH=$(toolkit probe-path); without it, what its own
    profiler and log tell is kept. `--dry-run` says which, and why.

    \b
    toolkit profile --server-pid 4120 --drive "batch=1,4 tokens=512 context=256"

    Next: the same for another step count and for plain decoding (a server each), then
    `toolkit model fit traces/`.
    """
    from toolkit.live.target import open_target

    loads, texts = _asked_loads(asked)
    _end_as_ctrl_c()
    with open_target(server_pid, port) as target:
        if dry_run:
            _print(_planned(target, loads), as_json)
        else:
            _profile(target, loads, texts, asked, as_json)


def _asked_loads(asked: dict[str, Any]) -> tuple[tuple[Load, ...], list[str] | None]:
    from toolkit.live.loads import loads_of, read_prompts

    if asked["prompts"] is not None and asked["drive"] is None:
        raise UsageError('--prompts says what to send but not how; add --drive "batch=1 tokens=512"')
    texts = read_prompts(asked["prompts"]) if asked["prompts"] is not None else None
    loads = loads_of(asked["drive"], with_prompts=texts is not None) if asked["drive"] is not None else ()
    if asked["baseline"] and not loads:
        raise UsageError('--baseline needs a load of its own; add --drive "batch=1 tokens=512"')
    return loads, texts


def _end_as_ctrl_c() -> None:
    """Let an ordinary kill or a closed terminal keep what was captured, and let a second one not lose it."""
    from toolkit.cli.ending import ending_signals

    if threading.current_thread() is not threading.main_thread():  # others may set no handler
        return
    taken = ending_signals()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell's background job has it
        taken.append(signal.SIGINT)

    def interrupt(_number: int, _frame: object) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for one in taken:
        signal.signal(one, interrupt)


def _planned(target: Target, loads: tuple[Load, ...]) -> ProfileReport:
    from toolkit.live.plan import best, why_not_better
    from toolkit.live.profiling import notes, require_fitting, require_tokenizer
    from toolkit.live.refusals import refusal
    from toolkit.schema.profile import ProfileReport

    refused = refusal(target.server, target.flags)
    require_fitting(target, loads)
    require_tokenizer(target, loads)
    way = None if refused else best(target.ways)
    return ProfileReport(
        dry_run=True,
        server=target.found(),
        ways=target.ways,
        used=way.name if way else None,
        why_not_better=why_not_better(target.ways, way.name) if way else refused,
        loads=loads,
        warnings=(*([refused] if refused else []), *notes(target)),
    )


def _profile(
    target: Target, loads: tuple[Load, ...], texts: list[str] | None, asked: dict[str, Any], as_json: bool
) -> None:
    from toolkit.cli.progress import Progress
    from toolkit.live.baseline import stale_baseline
    from toolkit.live.capture import Wishes
    from toolkit.live.profiling import Job, chosen_way, notes, profile_runs
    from toolkit.schema.profile import ProfileReport

    way, why_not = chosen_way(target)
    stale = stale_baseline(asked["out"], target.server, target.info)
    warnings = [*notes(target), *([stale] if stale else [])]
    if asked["baseline"]:
        loads = _with_baseline(target, loads, warnings)
    wishes = Wishes(
        cycles=asked["cycles"],
        seconds=asked["seconds"],
        trace_cycles=_TRACED_CYCLES if asked["trace"] else 0,
        overhead_pairs=asked["overhead_pairs"],
    )
    job = Job(loads=loads, wishes=wishes, out=asked["out"], overwrite=asked["overwrite"], texts=texts)
    runs: list[ProfiledRun] = []
    progress = Progress()
    try:
        for run in profile_runs(target, way, job, progress.say):
            runs.append(run)
    finally:
        progress.clear()
        if runs:
            report = ProfileReport(
                dry_run=False,
                server=target.found(),
                ways=target.ways,
                used=way,
                why_not_better=why_not,
                loads=loads,
                runs=tuple(runs),
                warnings=(*warnings, *(note for run in runs for note in run.warnings)),
            )
            _print(report, as_json)


def _with_baseline(target: Target, loads: tuple[Load, ...], warnings: list[str]) -> tuple[Load, ...]:
    """Return the loads with those of plain decoding first, or say which restart they need."""
    from toolkit.live.baseline import baseline_loads, restart_for_baseline

    if target.info.num_steps == 0:
        return loads
    plain = baseline_loads(target.server, target.flags, loads)
    if not plain:
        warnings.append(restart_for_baseline(target.server))
    return (*plain, *(load for load in loads if load not in plain))


def _print(report: ProfileReport, as_json: bool) -> None:
    from toolkit.report.json_text import json_text
    from toolkit.report.profile_text import profile_text

    for warning in dict.fromkeys(report.warnings):
        click.echo(f"toolkit: warning: {warning}", err=True)
    click.echo(json_text(report) if as_json else profile_text(report))
