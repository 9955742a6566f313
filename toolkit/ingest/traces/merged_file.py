"""One file that holds the traces of several ranks, as SGLang's merger writes it: taken apart by rank."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import msgspec

from toolkit.errors import BadInputError
from toolkit.ingest.byte_chunks import read_chunks
from toolkit.ingest.traces.chrome import Read, read_traces
from toolkit.ingest.traces.chrome_events import Event, StreamResult, stream_events
from toolkit.ingest.traces.event_rows import is_used
from toolkit.ingest.traces.trace_losses import stream_losses

_LABEL = re.compile(r"\[[^\]]*\bTP-?(\d+)[^\]]*\]")
_LABELLED = re.compile(rb'"pid"\s*:\s*"\[[^\]"]*\bTP-?\d+[^\]"]*\]')
_PEEK_BYTES = 1 << 20


def is_merged(path: Path) -> bool:
    """Return whether the first events of a trace are labelled with the rank that they are of."""
    try:
        head = next(read_chunks(path, [], _PEEK_BYTES), b"")
    except BadInputError:
        return False
    return bool(_LABELLED.search(head[:_PEEK_BYTES]))


def read_merged(path: Path) -> list[Read]:
    """Read the trace of each rank in a merged file, in order of rank, and what is refused of them.

    The parts go through files in the system's temporary folder. Raises BadInputError if the file cannot be
    read, or there is no room for them.
    """
    damage: list[str] = []
    with TemporaryDirectory(prefix="toolkit-merged-") as folder:
        try:
            with _Parts(Path(folder)) as parts:
                result = stream_events(read_chunks(path, damage), parts.consume)
                parts.finish(result)
        except OSError as error:
            raise BadInputError(
                f"{path} merges several ranks and cannot be taken apart ({error.strerror or error}); make "
                "room in the temporary folder, or pass the files of the single ranks"
            ) from None
        found = read_traces([parts.paths[rank] for rank in sorted(parts.paths)])
    notes = (*damage, *(f"{path.name}: {note}" for note in stream_losses(result, known_cut=bool(damage))))
    return [
        read
        if isinstance(read, BadInputError)
        else replace(read, source=path.name, damage=(*notes, *read.damage))
        for read in found
    ]


class _Parts(ExitStack):
    """A file for each rank, with the events of it that are used."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.paths: dict[int, Path] = {}
        self._folder = folder
        self._files: dict[int, BinaryIO] = {}

    def consume(self, events: list[Event]) -> None:
        """Write events to the files of their ranks; those without a label are of no rank."""
        for event in events:
            label = _LABEL.match(event.pid) if isinstance(event.pid, str) else None
            if label and is_used(event):
                self._file(int(label[1])).write(_written(event))

    def _file(self, rank: int) -> BinaryIO:
        if rank not in self._files:
            self.paths[rank] = self._folder / f"part-TP-{rank}.trace.json"
            self._files[rank] = self.enter_context(self.paths[rank].open("wb"))
            self._files[rank].write(b'{"traceEvents": [\n')
        return self._files[rank]

    def finish(self, result: StreamResult) -> None:
        """Write what stands beside the events."""
        for file in self._files.values():
            file.seek(file.tell() - len(b",\n"))
            file.write(b'], "merged": ' + msgspec.json.encode(sorted(self._files)))
            for key, value in result.top_level.items():
                file.write(b",\n" + msgspec.json.encode(key) + b": " + msgspec.json.encode(value))
            file.write(b"}\n")


def _written(event: Event) -> bytes:
    fields: dict[str, Any] = {
        "ph": event.ph,
        "cat": event.cat,
        "name": event.name,
        "pid": 0,
        "tid": event.tid,
    }
    fields |= {name: raw for name in ("ts", "dur") if bytes(raw := getattr(event, name))}
    if event.args is not None:
        given = msgspec.to_builtins(event.args)
        fields["args"] = {name: value for name, value in given.items() if value is not None}
    return msgspec.json.encode(fields) + b",\n"
