"""Everything that was read of one run, before any analysis."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.schema.calibration import Calibration
from toolkit.schema.client import ClientResult
from toolkit.schema.log import ServerLog
from toolkit.schema.measurement import Measurement
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans
from toolkit.schema.trace import RankTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run as its files tell it. `warnings` are sentences for the user, damage of files included."""

    name: str
    source: str
    info: RunInfo
    traces: tuple[RankTrace, ...] = ()
    spans: tuple[RankSpans, ...] = ()
    log: ServerLog | None = None
    client: ClientResult | None = None
    measurements: tuple[Measurement, ...] = ()
    calibration: Calibration | None = None
    warnings: tuple[str, ...] = ()
