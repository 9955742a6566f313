"""What the report page shows of each fitted group, and what `toolkit report` says (toolkit.report/1)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.schema.cost import CostModel, GroupModel
from toolkit.schema.forecast import Forecast
from toolkit.schema.inspection import Inspection

REPORT_SCHEMA = "toolkit.report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCycle:
    """The cycle of one setting in us as `predict` has it; `value` None where nothing is known."""

    value: float | None
    lo: float | None
    hi: float | None
    determined: bool
    extrapolated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLengthLines:
    """Accept lengths of the page's step counts for each length `given` at `num_steps`.

    `values[i][j]`: of the j-th step count where `given[i]` is the accept length of `num_draft_tokens`.
    """

    num_steps: int
    num_draft_tokens: int
    given: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfGrid:
    """Cycles of a group on a grid, exactly as `predict` answers at each of its points.

    `cycles[b][s]` of the b-th batch and s-th step count with collectives as measured.
    `allreduce_cycles[w][b][s]`: where an all-reduce takes `allreduce_us[w]`; both empty where the runs
    hold no all-reduce that can be changed.
    """

    steps: tuple[int, ...]
    batches: tuple[int, ...]
    context_tokens: int | None
    cycles: tuple[tuple[GridCycle, ...], ...]
    allreduce_us: tuple[float, ...]
    allreduce_cycles: tuple[tuple[tuple[GridCycle, ...], ...], ...]
    lengths: AcceptLengthLines | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """What is forecast of one group.

    `refused`: the sentence with which `predict` refuses the question; the forecast is then what can
    be said all the same, or None. `length_supposed`: no acceptance is known, so `forecast` is of a
    supposed one and only its cycles and break-even points count. `grid` None: not made for this group.
    `selectors` are the options of `predict` that choose the group among the others.
    """

    group: GroupModel
    forecast: Forecast | None
    refused: str | None
    length_supposed: bool
    grid: WhatIfGrid | None
    selectors: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """Everything the page is made from. `model` None: `not_fitted` says why nothing was fitted."""

    paths: tuple[str, ...]
    inspection: Inspection
    model: CostModel | None
    model_path: str | None
    not_fitted: str | None
    answers: tuple[GroupAnswer, ...]
    options: tuple[tuple[str, str], ...]  # of the question, as typed for `predict`
    toolkit_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """One group of the page that was written."""

    engine: str | None
    model: str | None
    gpu: str | None
    tp_size: int | None
    action: str | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """The object `report --json` prints."""

    schema: str = REPORT_SCHEMA
    report: str
    bytes: int
    runs: int
    groups: tuple[WrittenGroup, ...]
    failed_checks: int
    warnings: tuple[str, ...] = ()
