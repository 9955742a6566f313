"""Every number that a command prints as JSON is named on a page that says what it is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from toolkit.schema.calibration import Calibration, CollectiveLatency, ForwardTime, MemoryBandwidth
from toolkit.schema.cost import (
    CheckedCell,
    CheckReport,
    FitReport,
    FittedCell,
    GroupReport,
    HoldOut,
    Identifiability,
    NextRun,
    Term,
)
from toolkit.schema.demo import DemoResult
from toolkit.schema.forecast import BreakEven, Candidate, DraftTpAnswer, DraftTpSize, Forecast, Recommendation
from toolkit.schema.inspection import (
    AcceptanceAudit,
    AcceptanceReport,
    ClockReport,
    CollectiveReport,
    Configuration,
    DominantRequest,
    DraftStep,
    PhaseTime,
    RankReport,
    Spread,
    Straggler,
    Throughput,
)
from toolkit.schema.profile import ProfiledRun, ProfileReport
from toolkit.schema.report import WrittenReport

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("measures.md", "answers.md", "calibrate.md", "reference.md", "commands/inspect.md")
RECORDS = (
    *(
        Spread,
        PhaseTime,
        RankReport,
        DraftStep,
        CollectiveReport,
        AcceptanceReport,
        Throughput,
        Configuration,
    ),
    *(AcceptanceAudit, Term, HoldOut, Identifiability, NextRun, FittedCell, GroupReport, FitReport),
    *(CheckedCell, CheckReport, Candidate, BreakEven, Recommendation, DraftTpSize, DraftTpAnswer, Forecast),
    *(ProfiledRun, ProfileReport, CollectiveLatency, ForwardTime, MemoryBandwidth, Calibration),
    *(DemoResult, WrittenReport, ClockReport, Straggler, DominantRequest),
)
NUMBER = re.compile(r"\b(int|float|Spread|Interval|Estimate|Latency)\b")


@pytest.fixture(scope="module")
def named() -> set[str]:
    """Return the words that stand in code on the pages of numbers."""
    text = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", text))))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_number_of_a_record_is_on_a_page(record: Any, named: set[str]) -> None:
    numbers = [one.name for one in dataclasses.fields(record) if NUMBER.search(str(one.type))]
    assert not [name for name in numbers if name not in named], f"say what it is in one of docs/{PAGES}"
