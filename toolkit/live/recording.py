"""One recording of the probes of all ranks: started, watched, stopped, read."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError, CaptureError
from toolkit.ingest.spans import read_spans
from toolkit.live.probe_client import ProbeConnection, Probes
from toolkit.live.staging import Staging
from toolkit.probe.wire_names import STEPS_EVERY, spans_name
from toolkit.schema.spans import RankSpans

_ALL_ASKED_NS, _ONE_ASKED_NS = 10_000_000, 3_000_000  # an answer takes about 1 ms


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ranks recorded; sentences on what is missing in `warnings`."""

    spans: tuple[RankSpans, ...]
    warnings: tuple[str, ...]

    @property
    def cycles(self) -> int:
        """The cycles of the rank that has the fewest."""
        return min((len(rank.cycles) for rank in self.spans), default=0)


def _together_ns(ranks: int) -> int | None:
    """Return when all ranks of a server begin: each is asked in turn, and all are to begin with one cycle."""
    if ranks < 2:
        return None
    return time.monotonic_ns() + _ALL_ASKED_NS + ranks * _ONE_ASKED_NS


class SpanRecording:
    """Wakes every rank's probe; `finish` puts them to sleep and returns what they wrote."""

    def __init__(
        self,
        probes: Probes,
        *,
        cycles: int | None = None,
        seconds: float | None = None,
        steps_every: int = STEPS_EVERY,
    ) -> None:
        place = probes.connections[0].place
        self._probes = probes
        self._staging = Staging(place.folder, place.inner_folder, place.folder.stat().st_uid)
        self._started: list[ProbeConnection] = []
        together_ns = _together_ns(len(probes.connections))
        try:
            for one in probes.connections:
                answer = one.start(self._staging.inner, cycles, seconds, steps_every, together_ns)
                if not answer.get("ok"):
                    raise CaptureError(
                        f"the probe in process {one.place.pid} does not record "
                        f"({answer.get('error') or 'it gives no reason'}); end the other profile first"
                    )
                self._started.append(one)
        except BaseException:
            self.abandon()
            raise

    def recorded(self) -> int:
        """Return how many cycles the rank with the fewest has recorded so far."""
        return self._probes.recorded()

    @property
    def ended(self) -> bool:
        """Say whether the probes stopped by themselves at the last look."""
        return self._probes.asleep

    def finish(self) -> Recorded:
        """Stop, read the files of all ranks and remove them."""
        warnings: list[str] = []
        spans: list[RankSpans] = []
        for rank, (one, status) in enumerate(
            zip(self._probes.connections, self._probes.statuses, strict=True)
        ):
            try:
                answer = one.stop()
            except CaptureError as error:
                warnings.append(str(error))
                answer = {}
            number = status.get("tp_rank")
            found = self._read(answer, status, rank if number is None else number, warnings)
            if found:
                spans.append(found)
        self._staging.remove()
        return Recorded(tuple(spans), tuple(warnings))

    def abandon(self) -> None:
        """Stop what this started, and keep nothing."""
        for one in self._started:
            with contextlib.suppress(CaptureError):
                one.stop()
        self._staging.remove()

    def _read(
        self, answer: dict[str, Any], status: dict[str, Any], rank: int, warnings: list[str]
    ) -> RankSpans | None:
        named = answer.get("spans_file") or status.get("spans_file") or spans_name(rank)
        path = self._staging.path / Path(str(named)).name
        try:
            found = read_spans(path)
        except BadInputError as error:
            warnings.append(f"rank {rank} left no spans: {error}")
            return None
        warnings += [note for note in found.damage if "holds no lines" not in note]
        dropped = answer.get("dropped")
        return replace(found, dropped=max(found.dropped, dropped if isinstance(dropped, int) else 0))
