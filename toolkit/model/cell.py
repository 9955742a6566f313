"""A configuration reduced to the numbers that the fit uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple

from toolkit.model.experts import Experts
from toolkit.model.model_shape import DENSE, ModelShape
from toolkit.model.terms import Setting
from toolkit.schema.cost import FittedCell, GroupModel
from toolkit.schema.inspection import AcceptanceReport, CollectiveReport

DesignKey = tuple[int, int, int, int, int | None, bool, int | None]


class GroupKey(NamedTuple):
    """What cells of one sub-model agree on; plain decoding has no draft model and belongs to every one."""

    engine: str | None
    model: str | None
    gpu: str | None
    tp_size: int | None
    draft_model: str | None = None


def near_context(context_tokens: int | None) -> int | None:
    """Return the bin of a context: those within a fifth are one."""
    return round(4 * log2(context_tokens)) if context_tokens else None


def steps_text(steps: int) -> str:
    """Return "plain decoding", "1 step" or "5 steps"."""
    if steps == 0:
        return "plain decoding"
    return "1 step" if steps == 1 else f"{steps} steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A median or mean time in us and its relative standard error."""

    us: float
    se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One usable configuration. Phase times are of the rank that waited least, waits taken out.

    Costs follow `padded_batch_size`: a CUDA graph computes the padding too. `cycle` is None when its
    time was inflated by Python stacks or not measured. `steps` are draft forwards inside the draft
    pass; `steps_exclude_selection` when the time between them was not counted into them.
    """

    key: GroupKey
    run: str
    engine: str | None
    engine_version: str | None
    draft_tp: int | None
    overlap_schedule: bool | None
    acceptance_kind: str | None
    num_steps: int
    num_draft_tokens: int
    topk: int
    batch_size: int
    padded_batch_size: int
    context_tokens: int | None
    cycles: int
    cycle: Timed | None
    cycle_source: str | None
    graph: dict[str, Timed] = field(default_factory=dict)
    stage: dict[str, Timed] = field(default_factory=dict)
    steps: tuple[float, ...] = ()
    steps_exclude_selection: bool = False
    collectives: tuple[CollectiveReport, ...] = ()
    bound: str = "unknown"
    eager: bool = False  # the target's forward is known to have run without a captured graph
    draft_eager: bool = False
    acceptance: AcceptanceReport | None = None
    shape: ModelShape = DENSE
    graph_sizes: tuple[int, ...] = ()
    largest_graph: int | None = None
    other_draft_tp: int | None = None  # where it is not that of most of the group

    @property
    def overlap(self) -> bool:
        """Whether host work is hidden behind the GPU's; engines do unless told not to."""
        return self.overlap_schedule is not False

    @property
    def design_key(self) -> DesignKey:
        """Configurations that agree on it are replicates; contexts within a fifth are one context."""
        context = near_context(self.context_tokens)
        width = (self.num_draft_tokens, self.topk)
        return (self.num_steps, *width, self.padded_batch_size, context, self.overlap, self.other_draft_tp)

    @property
    def setting_text(self) -> str:
        """The configuration in words, for warnings."""
        return f"{steps_text(self.num_steps)} at batch {self.batch_size}"


def setting_of(cell: Cell | FittedCell) -> Setting:
    """Return what the time of a cell depends on, of a fit or of a model file."""
    return Setting(
        num_steps=cell.num_steps,
        num_draft_tokens=cell.num_draft_tokens,
        topk=cell.topk,
        batch_size=cell.padded_batch_size,
        context_tokens=cell.context_tokens,
        overlap=cell.overlap,
        shape=_shape(cell) if isinstance(cell, FittedCell) else cell.shape,
        draft_tp=cell.other_draft_tp,
    )


def group_shape(group: GroupModel) -> ModelShape:
    """Return the shape that a fitted group's costs follow."""
    return _shape(group.cells[0]) if group.cells else DENSE


def _shape(cell: FittedCell) -> ModelShape:
    experts = Experts(*cell.experts) if cell.experts else None
    return ModelShape(
        experts=experts,
        experts_apart=cell.experts_apart,
        wave_requests=cell.wave_requests,
        knee_tokens=cell.knee_tokens,
    )
