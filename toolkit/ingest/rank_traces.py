"""The traces of one run, one a rank; files as profilers leave them: merged, of stages, of several windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import BadInputError
from toolkit.ingest.run_files import RunFiles
from toolkit.ingest.traces.chrome import TraceReader
from toolkit.ingest.traces.merged_file import is_merged, read_merged
from toolkit.schema.trace import RankTrace

_RANK_PART = re.compile(r"(?i)(?:tp|rank)[-_]?\d+")
_PREFILL_STAGE = re.compile(r"-(?:EXTEND|prefill)(?=\.)")
_DECODE_STAGE = re.compile(r"-(?:DECODE|decode)(?=\.)")


def stem_of(path: Path) -> str:
    """Return a file's name less what says which rank it is of."""
    return _RANK_PART.sub("*", path.name)


def rank_traces(files: RunFiles, trace_reader: TraceReader) -> tuple[RankTrace, ...]:
    """Read one trace a rank, in order of rank.

    A file of several ranks is taken apart if no other trace is there. Raises BadInputError for two traces
    of one rank.
    """
    given = files.of("trace")
    traces: dict[int, RankTrace] = {}
    found = _merged(files, given[0]) if len(given) == 1 and is_merged(given[0]) else None
    for path, trace in files.read_together("trace", trace_reader) if found is None else found:
        other = traces.setdefault(trace.tp_rank, trace)
        if other is not trace:
            raise BadInputError(
                f"{path.parent} holds two traces of rank {trace.tp_rank} ({other.source}, {trace.source}), "
                "of two servers or two windows; make a run folder for each"
            )
    return tuple(traces[rank] for rank in sorted(traces))


def _merged(files: RunFiles, path: Path) -> Iterator[tuple[Path, RankTrace]]:
    for read in read_merged(path):
        if isinstance(read, BadInputError):
            files.refused.append(read)
        else:
            yield path, read


def without_prefill_stages(files: RunFiles) -> None:
    """Leave out traces of the prefill stage that lie beside those of the decode stage, and say so."""
    traces = files.of("trace")
    decoding = {_DECODE_STAGE.sub("", path.name) for path in traces if _DECODE_STAGE.search(path.name)}
    prefill = [path for path in traces if _PREFILL_STAGE.sub("", path.name) in decoding - {path.name}]
    if prefill:
        files.by_kind["trace"] = [path for path in traces if path not in prefill]
        files.warnings += [
            f"{path} is of the prefill stage and is left out; cycles are in the trace of the decode stage"
            for path in prefill
        ]


def windows_of(files: RunFiles) -> list[RunFiles]:
    """Return a run for each window or server where a folder holds nothing but traces of several.

    They are told apart by their names less the rank. One run where no two files are of one rank, or where
    other files may belong to any of them.
    """
    traces = files.of("trace")
    named = [(stem_of(path), tuple(_RANK_PART.findall(path.name))) for path in traces]
    ranks = [rank for _, rank in named if rank]
    if len(traces) != sum(map(len, files.by_kind.values())) or len(set(ranks)) == len(ranks):
        return [files]
    if len(ranks) < len(traces) or len(set(named)) < len(named):
        return [files]  # which rank a file is of only the file says
    windows: dict[str, RunFiles] = {}
    for (stem, _), path in zip(named, traces, strict=True):
        windows.setdefault(stem, RunFiles()).add(path, "trace")
    first = next(iter(windows.values()))
    first.strays, first.warnings = files.strays, files.warnings
    first.warnings.append(
        f"{traces[0].parent} holds traces of {len(windows)} servers or windows, told apart by their names; "
        "each is read as a run"
    )
    return list(windows.values())
