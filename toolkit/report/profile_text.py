"""What `toolkit profile` prints for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from toolkit.report.tables import counted, marked, rendered, table
from toolkit.schema.profile import FoundServer, Load, ProfiledRun, ProfileReport, Way


def profile_text(report: ProfileReport) -> str:
    """Return the server, then the plan of a dry run or the runs that were written."""
    return "\n".join(part if isinstance(part, str) else rendered([part]) for part in _parts(report))


def _parts(report: ProfileReport) -> Iterator[RenderableType]:
    """Yield texts and tables; plain strings stay one line, to be copied."""
    yield Text(_server(report.server), style="bold")
    if report.dry_run:
        for way in report.ways:
            yield from _way(way, used=way.name == report.used)
        if report.loads:
            yield Text("loads: " + "; ".join(_load(load) for load in report.loads))
        return
    if report.used:
        better = f" (not better: {report.why_not_better})" if report.why_not_better else ""
        yield Text(f"seen by: {report.used}{better}")
    if report.runs:
        yield _runs(report.runs)
        if any(run.more_requests is not None for run in report.runs):
            yield Text("to tell 2 %: requests more that tell apart two settings that differ by 2 %")
    for run in report.runs:
        yield str(run.folder)
        yield marked(" ", _notes(run))


def _server(server: FoundServer) -> str:
    ranks = len(server.rank_pids)
    parts = [
        f"{server.engine} {server.engine_version or '(version not known)'}",
        f"process {server.pid}",
        f"{counted(ranks, 'rank')} in {', '.join(map(str, server.rank_pids))}",
        f"port {server.port}" if server.port else "no port",
        ", ".join(server.gpus) or "no GPU seen",
    ]
    settings = server.settings
    if settings.num_steps is not None:
        steps = counted(settings.num_steps, "draft step")
        parts.append("plain decoding" if settings.num_steps == 0 else steps)
    return "; ".join(parts)


def _way(way: Way, *, used: bool) -> Iterator[RenderableType]:
    yield marked("->" if used else "  ", f"{way.name}: {'' if way.usable else 'not usable, '}{way.why}")
    if way.needs:
        yield f"     needs: {way.needs}"


def _load(load: Load) -> str:
    prompt = "texts" if load.prompt_tokens is None else f"context {load.prompt_tokens}"
    heat = f", temperature {load.temperature:g}" if load.temperature else ""
    return f"batch {load.batch_size}, {prompt}, {load.output_tokens} tokens{heat}"


def _runs(runs: tuple[ProfiledRun, ...]) -> RenderableType:
    rows = [
        (
            *_asked(run.load),
            str(run.cycles),
            "-" if run.tok_s is None else f"{run.tok_s.value:,.1f}",
            "-" if run.tok_s is None else f"{run.tok_s.lo:,.1f}-{run.tok_s.hi:,.1f}",
            "-" if run.more_requests is None else str(run.more_requests),
        )
        for run in runs
    ]
    columns = ("batch", "context", "tokens", "cycles", "tok/s", "90 %", "to tell 2 %")
    return table([f" {name}" for name in columns], rows)


def _asked(load: Load | None) -> tuple[str, str, str]:
    if load is None:
        return "traffic", "-", "-"
    return str(load.batch_size), str(load.prompt_tokens or "texts"), str(load.output_tokens)


def _notes(run: ProfiledRun) -> str:
    traces = f", {counted(run.traces, 'trace')}" if run.traces else ""
    ranks = counted(run.ranks, "rank") if run.ranks else "no spans of any rank"
    notes = [f"{ranks}{traces}"] + ([] if run.complete else ["incomplete"])
    fraction = run.overhead.get("fraction")
    if fraction is not None:
        lo, hi = run.overhead["lo"], run.overhead["hi"]
        told = "" if lo > 0 or hi < 0 else ", so it is not told from nothing"
        notes.append(f"the probe costs {fraction:+.2%} ({lo:+.2%} to {hi:+.2%}){told}")
    inflation = run.overhead.get("trace", {}).get("inflation")
    if inflation is not None:
        notes.append(f"the trace made its cycles {inflation:.2f} times as long")
    if run.dropped:
        notes.append(f"{run.dropped} cycles dropped")
    return "; ".join(notes)
