"""`toolkit profile`: the loads of one server, each captured and written as a run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import CaptureError, UsageError
from toolkit.live.capture import Captured, Say, Wishes, capture
from toolkit.live.confidence import more_repeats, throughput
from toolkit.live.driving import Driver, Prompts
from toolkit.live.facts import most_context, most_requests, random_weights, vocabulary_size
from toolkit.live.loads import RandomPrompts, TextPrompts
from toolkit.live.plan import ENGINE_PROFILER, ON_DEMAND, PROBE, best, why_not_better
from toolkit.live.refusals import refusal, speculation_note, takes_token_ids_alone
from toolkit.live.run_folder import require_place, run_info, write_run
from toolkit.live.server import NAMES
from toolkit.live.target import Target
from toolkit.schema.profile import Load, ProfiledRun

_TRACED_CYCLES = 8
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to profile and where to; `texts` are the prompts of a file, None for random tokens."""

    loads: tuple[Load, ...]
    wishes: Wishes
    out: Path
    overwrite: bool = False
    texts: Sequence[str] | None = None


def chosen_way(target: Target) -> tuple[str, str | None]:
    """Return the way to use and why no better one; CaptureError where the server is refused or none works."""
    refused = refusal(target.server, target.flags)
    if refused:
        raise CaptureError(refused)
    way = best(target.ways)
    if way is None:
        first = target.ways[-1] if target.server.engine == "pytorch" else target.ways[0]
        needs = f"it needs {first.needs}" if first.needs else "see the server's log, and docs/attaching.md"
        named = f"{NAMES[target.server.engine]} process {target.server.pid}"
        raise CaptureError(f"{named} cannot be profiled: {first.why}; {needs}")
    return way.name, why_not_better(target.ways, way.name)


def notes(target: Target) -> list[str]:
    """Return sentences on the server that a reader of its runs should know."""
    note = speculation_note(target.server, target.flags)
    return [*target.warnings, *([note] if note else [])]


def profile_runs(target: Target, way: str, job: Job, say: Say) -> Iterator[ProfiledRun]:
    """Capture and write one run after another.

    What an interruption or a failing server left is written and yielded first, marked incomplete; then
    KeyboardInterrupt or CaptureError follows.
    """
    require_fitting(target, job.loads)
    require_tokenizer(target, job.loads)
    require_place(job.out)
    wishes = job.wishes
    if way == ENGINE_PROFILER and not wishes.trace_cycles:
        wishes = replace(wishes, trace_cycles=_TRACED_CYCLES)
    if way == ON_DEMAND:
        wishes = replace(wishes, on_demand=True, trace_cycles=0)
    if way != PROBE and target.probes:
        target.probes.close()
        target.probes = None
    contexts = {load.prompt_tokens for load in job.loads}
    for number, load in enumerate(job.loads or (None,)):
        driver = _driver(target, load, job.texts, number) if load else None
        at = f"load {number + 1} of {len(job.loads)}: " if len(job.loads) > 1 else ""
        found = capture(target, driver, wishes, lambda text, at=at: say(at + text))  # type: ignore[misc]
        try:
            yield from _written(target, way, job, found, show_context=len(contexts) > 1)
        finally:
            if found.profiler:
                found.profiler.remove()
        if found.interrupted:
            raise KeyboardInterrupt
        if found.failure:
            raise CaptureError(found.failure)
        wishes = replace(wishes, overhead_pairs=0)  # the cost is the server's, measured once


def _written(
    target: Target, way: str, job: Job, found: Captured, *, show_context: bool
) -> Iterator[ProfiledRun]:
    """Write what was captured and yield it; CaptureError where a whole capture saw nothing."""
    if way == PROBE and found.complete and not found.recorded.cycles:
        raise CaptureError(_nothing_seen(target, found))
    if found.empty:
        if found.complete:
            raise CaptureError(_nothing_seen(target, found))
        return
    folder = write_run(
        job.out,
        target,
        found,
        _how(target, way, job, found),
        show_context=show_context,
        overwrite=job.overwrite,
    )
    yield profiled_run(folder, target, found)


def _nothing_seen(target: Target, found: Captured) -> str:
    if found.load is None:
        return (
            f"process {target.server.pid} decoded nothing in {found.seconds:.0f} s: it is idle; "
            'send it requests, or drive it with --drive "batch=1 tokens=512"'
        )
    return (
        f"process {target.server.pid} served the load but no cycle was seen "
        f"({'; '.join(found.warnings) or 'its probe recorded none'}); see the server's log"
    )


def _driver(target: Target, load: Load, texts: Sequence[str] | None, number: int) -> Driver:
    prompts: Prompts
    if texts is None:
        prompts = RandomPrompts(vocabulary_size(target.server, target.flags), _SEED + number)
    else:
        prompts = TextPrompts(texts)
    return Driver(target.generator(), prompts, load)


def require_fitting(target: Target, loads: Sequence[Load]) -> None:
    """Raise UsageError for a load that is longer or wider than the server takes."""
    most = most_context(target.server, target.flags)
    widest = most_requests(target.flags)
    for load in loads:
        if widest is not None and load.batch_size > widest:
            raise UsageError(
                f"--drive: batch {load.batch_size}, and the server runs {widest} requests at once: the "
                "others would wait; lower batch="
            )
        wanted = (load.prompt_tokens or 0) + load.output_tokens
        if most is not None and wanted > most:
            raise UsageError(
                f"--drive: {load.prompt_tokens or 0} prompt and {load.output_tokens} output tokens are "
                f"{wanted}, and the server takes {most}; lower context= or tokens="
            )


def require_tokenizer(target: Target, loads: Sequence[Load]) -> None:
    """Raise UsageError for texts that are meant for a server that takes token ids alone."""
    if any(load.prompt_tokens is None for load in loads) and takes_token_ids_alone(
        target.server, target.flags
    ):
        raise UsageError(
            f"--prompts: {NAMES[target.server.engine]} process {target.server.pid} has no tokenizer and "
            "takes token ids alone; leave --prompts out to drive it with random tokens, or start it with one"
        )


def _how(target: Target, way: str, job: Job, found: Captured) -> dict[str, Any]:
    """Return how the run was taken, for run.json."""
    facts: dict[str, Any] = {"how": way, "why_not_better": why_not_better(target.ways, way)}
    load = found.load
    if load:
        prompt = "texts of a file" if job.texts is not None else f"{load.prompt_tokens} random tokens"
        facts["load"] = (
            f"batches of {load.batch_size}, {prompt} in and {load.output_tokens} tokens out each, "
            f"{len(found.client.repeats) if found.client else 0} after one warm-up"
        )
        if load.plain:
            facts["baseline"] = "plain decoding of a server that adapts its step count to the batch"
    else:
        facts["load"] = "the traffic that was there"
    if target.info.acceptance == "simulated":
        facts["acceptance"] = "drawn: it says what cycles cost, not what a model accepts"
    elif random_weights(target.server, target.flags):
        facts["acceptance"] = "of random weights: it says nothing about a trained model"
    elif load and job.texts is None and (target.info.num_steps or 0) > 0:
        facts["acceptance"] = "of random prompts, which a real model continues as it would no text"
    if target.server.engine == "vllm" and found.client and load and load.batch_size > 1:
        facts["requests"] = "vLLM counts acceptance for the server: an entry of client.json is a batch"
    return {key: value for key, value in facts.items() if value is not None}


def profiled_run(folder: Path, target: Target, found: Captured) -> ProfiledRun:
    """Return the summary of a run that was written."""
    repeats = found.client.repeats if found.client else ()
    batch = found.load.batch_size if found.load else 1
    more = more_repeats(repeats)
    spans = found.recorded.spans
    return ProfiledRun(
        folder=str(folder),
        complete=found.complete,
        load=found.load,
        ranks=sum(1 for rank in spans if rank.cycles) or len(found.traces),
        cycles=found.recorded.cycles,
        dropped=sum(rank.dropped for rank in spans),
        traces=len(found.traces),
        requests=len(repeats) * batch,
        seconds=round(found.seconds, 3),
        tok_s=throughput(repeats),
        more_requests=None if more is None else more * batch,
        overhead=run_info(target, found, {}).overhead,
        warnings=(*found.warnings, *([found.failure] if found.failure else [])),
    )
