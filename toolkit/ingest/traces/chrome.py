"""Torch profiler traces (.json, .json.gz), one file a rank, as `RankTrace`s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from toolkit.errors import BadInputError
from toolkit.ingest.forked import cores, mapped
from toolkit.ingest.traces.chrome_events import StreamResult
from toolkit.ingest.traces.event_rows import KERNEL
from toolkit.ingest.traces.file_parts import FilePart, PartRead, fit_together, places_of_parts, read_part
from toolkit.ingest.traces.merged_rows import MergedRows
from toolkit.ingest.traces.trace_cache import TraceCache, cache_folder
from toolkit.ingest.traces.trace_losses import losses, refuse_unusable
from toolkit.ingest.traces.trace_store import stored_trace, write_trace
from toolkit.schema.trace import RankTrace

Read = RankTrace | BadInputError
TraceReader = Callable[[Sequence[Path]], Sequence[Read]]
_WORTH_SHARING_BYTES = 1 << 20  # of all files: below, forking takes longer than it saves
_PARTS_A_CORE = 2  # events of the host come first, and take less time than those of the GPU behind them
_MOST_KERNELS_IN_MEMORY = 50_000  # the columns of more lie in a nameless file


def read_trace(path: Path) -> RankTrace:
    """Read one rank's trace; nanoseconds and everything before a damaged place are kept.

    Raises BadInputError when the file is no trace, holds several ranks, or nothing in it can be read.
    A trace without kernels is returned as such: only the reader's caller knows if that matters.
    """
    (found,) = read_traces([path])
    if isinstance(found, BadInputError):
        raise found
    return found


def read_traces(
    paths: Sequence[Path], *, cache: bool = False, meanwhile: Callable[[], object] | None = None
) -> list[Read]:
    """Read traces on all cores; in place of one that `read_trace` refuses stands its error.

    With `cache`, traces that were read before come from the user's cache folder. `meanwhile` is called
    here while other processes read, if they do.
    """
    folder = cache_folder() if cache else None
    kept = TraceCache(folder) if folder else None
    keys = [kept.key_of(path) if kept else None for path in paths]
    found: list[Read | None] = [_known(kept, key) if kept and key else None for key in keys]
    waiting = [i for i, trace in enumerate(found) if trace is None]
    with ExitStack() as stack:
        share = cores() // len(waiting) if waiting else 0
        wanted = _PARTS_A_CORE * share if share > 1 else 1
        parts = [_parts(paths[i], wanted, stack) for i in waiting]
        for i, own, read in zip(waiting, parts, _read_parts(parts, meanwhile), strict=True):
            fits = len(read) == 1 or fit_together(read)
            again = read if fits else [read_part(FilePart(paths[i], spool=own[0].spool))]
            found[i] = _trace_of(paths[i], again, kept, keys[i])
    return [trace for trace in found if trace is not None]


def _known(cache: TraceCache, key: str) -> RankTrace | None:
    """Return the trace that was kept under a key; None if none was, or not by these readers."""
    file = cache.open(key)
    if file is None:
        return None
    with file, suppress(OSError, ValueError, LookupError, TypeError):
        return stored_trace(file)
    return None


def _parts(path: Path, wanted: int, stack: ExitStack) -> list[FilePart]:
    """Return the parts in which a file is read, each with a nameless file for its rows."""
    places = places_of_parts(path, wanted)
    if not places:
        return [FilePart(path, spool=_nameless_file(stack))]
    return [FilePart(path, start, stop, _nameless_file(stack)) for start, stop in places]


def _nameless_file(stack: ExitStack | None = None) -> BinaryIO | None:
    """Return a file that is gone once it is closed; None where none can be made."""
    try:
        file = cast(BinaryIO, TemporaryFile())  # noqa: SIM115
    except OSError:
        return None
    return stack.enter_context(file) if stack else file


def _read_parts(
    parts: Sequence[Sequence[FilePart]], meanwhile: Callable[[], object] | None
) -> list[list[PartRead]]:
    """Read the parts of all files, shared among the cores."""
    every = [part for own in parts for part in own]
    sizes = [_size_bytes(part) for part in every]
    read = mapped(read_part, every, sizes, worth_sharing=_WORTH_SHARING_BYTES, meanwhile=meanwhile)
    for part, one in zip(every, read, strict=True):
        one.rows.attach(part.spool)
    following = iter(read)
    return [[next(following) for _ in own] for own in parts]


def _size_bytes(part: FilePart) -> int:
    if part.stop is not None:
        return part.stop - part.start
    try:
        return part.path.stat().st_size
    except OSError:
        return 0


def _trace_of(path: Path, parts: Sequence[PartRead], cache: TraceCache | None, key: str | None) -> Read:
    """Put the parts of one file together: as columns in the cache, in a nameless file, or in memory."""
    if parts[0].refused:
        return parts[0].refused
    rows = MergedRows([part.rows for part in parts])
    result = _whole_result([part.result for part in parts])
    damage = [note for part in parts for note in part.damage]
    try:
        refuse_unusable(path, result, rows, damage)
    except BadInputError as error:
        return error
    damage += losses(path, result, rows, known_cut=bool(damage))
    write = partial(write_trace, path=path, rows=rows, result=result, damage=damage)
    file = cache.keep(path, key, write) if cache and key else None
    if file is None:
        large = rows.rows(KERNEL) > _MOST_KERNELS_IN_MEMORY
        file = (_nameless_file() if large else None) or BytesIO()
        write(file)
    with file:
        trace = stored_trace(file)
    assert trace is not None
    return trace


def _whole_result(results: Sequence[StreamResult]) -> StreamResult:
    """Return what one pass would have found: the array begins in the first part and ends in the last."""
    whole = results[-1]
    whole.top_level = {key: value for result in results for key, value in result.top_level.items()}
    whole.found_array = results[0].found_array
    whole.cut_head = results[0].cut_head
    whole.events = sum(result.events for result in results)
    return whole
