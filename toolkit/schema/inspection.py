"""What `toolkit inspect` says of runs (toolkit.inspect/1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.schema.calibration import Calibration

INSPECT_SCHEMA = "toolkit.inspect/1"
Bound = Literal["host", "gpu", "unknown"]
CollectiveSource = Literal["trace", "spans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A time over the cycles of one configuration, in us.

    `se` is the standard error of `mean` (cycles taken in blocks, as neighbours are alike).
    """

    median: float
    p10: float
    p90: float
    mean: float
    se: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTime:
    """A phase on one rank. `graph_us` and `stage_us` are different quantities (docs/measures.md)."""

    graph_us: Spread | None = None
    busy_us: float | None = None
    stage_us: Spread | None = None
    kernels: int | None = None
    graph: bool | None = None  # replayed as a captured graph, None if not known
    wait_us: float | None = None  # of graph_us, spent waiting in collectives for other ranks
    collectives_us: float | None = None  # in the phase's collectives, waiting included; median


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReport:
    """A rank's clock against that of the first rank, by the ends of their collectives.

    `spread_us`: how far apart single ends still are once offset and drift are taken out.
    """

    offset_us: float
    drift_ppm: float
    spread_us: float
    collectives: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """Phases as one rank saw them; `gpu_work_fraction` is GPU busy less waiting for other ranks."""

    tp_rank: int
    gpu_busy_fraction: float | None
    gpu_work_fraction: float | None = None
    phases: dict[str, PhaseTime]
    clock: ClockReport | None = None  # of its trace


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftStep:
    """One draft forward inside the draft pass, 1-based.

    From a trace the selection of its tokens is included; from events around the model's call
    (`draft_steps_source` "spans") and from forwards launched apart it is not.
    `is_extend`: vLLM's first draft forward, which doubles as the extend and reads all verified tokens.
    """

    forward: int
    median_us: float
    is_extend: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveReport:
    """All collectives of one kind in one phase of a cycle. Times in us.

    `wire_us` is the shortest duration over the ranks, median over instances; None when the ranks
    could not be matched. `wait_us_per_cycle` is what a rank spent above the wire, mean over ranks.

    With `source` "spans" all collectives of the phase are in one report: events do not say which
    operation they are around (`op` "collective") nor by which algorithm, and ranks are compared by
    the place of a collective in its phase, never cycle by cycle (`matched_fraction` None).
    """

    phase: str
    op: str
    algorithm: str | None
    group_size: int | None
    message_bytes: int | None
    per_cycle: float
    wire_us: float | None
    wait_us_per_cycle: float | None
    first_wait_us: float | None
    first_wait_max_us: float | None  # of the rank that waited longest
    matched_fraction: float | None
    source: CollectiveSource = "trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """The rank that most collectives wait for, in that share of the cycles.

    `others_wait_us` is what each of the others waits for it in a cycle: mean over them, median over cycles.
    """

    tp_rank: int
    cycles_share: float
    others_wait_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DominantRequest:
    """A request with many more cycles than the others, and another accept length: `number` counts from 1."""

    number: int
    cycles_share: float
    accept_length: float
    others_accept_length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceReport:
    """Acceptance of one configuration; `accept_by_position` is unconditional (S_j).

    `accept_length` is tokens over cycles as counted. In `accept_by_position` the last cycles of `cut_ends`
    requests are right-censored, as the end of the request may have cut them; None: not known.
    `accept_length_by_request` counts each request once, however many cycles it has.
    """

    accept_length: float | None
    accept_by_position: tuple[float, ...] = ()
    cycles: int = 0  # request-cycles counted
    requests: int = 0
    se: float | None = None
    rate: float | None = None  # as the log printed it
    rate_kind: str | None = None  # "length/tokens" or "correct/proposed", by the lines themselves
    cut_ends: int | None = None
    accept_length_by_request: float | None = None
    dominant: DominantRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Tokens per second: as a log or client counted it, and batch x accept length / mean cycle."""

    measured: float | None = None
    from_cycle: float | None = None
    measured_by: str | None = None  # "log", "client" or "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One (batch size, padded batch, step count, context bin) of a run, all sources joined.

    Cycles whose target forward is known to be no replay of a graph are a configuration of their own.

    `cycle_us` comes from a trace only where no other source has a shorter one; `cycle_source` names
    where it is from.
    """

    batch_size: int | None
    padded_batch_size: int | None
    num_steps: int | None
    num_draft_tokens: int | None
    topk: int | None
    context_tokens: int | None
    cycles: int
    sources: tuple[str, ...]
    cycle_us: Spread | None
    cycle_source: str | None  # "spans", "trace", "log", "client", "table"
    ranks: tuple[RankReport, ...] = ()
    draft_steps: tuple[DraftStep, ...] = ()
    draft_steps_source: str | None = None
    collectives: tuple[CollectiveReport, ...] = ()
    bound: Bound = "unknown"
    acceptance: AcceptanceReport | None = None
    throughput_tok_s: Throughput = field(default_factory=Throughput)
    unattributed_fraction: float | None = None
    trace_inflation: float | None = None  # traced cycle over untraced cycle
    row: int | None = None  # of the table it was read from
    draft_model: str | None = None  # of its row; None: as its run
    graph: bool | None = None  # the target's forward is replayed as a captured graph, None if not known
    straggler: Straggler | None = None  # None also where ranks take turns, or only one is known
    notes: tuple[str, ...] = ()  # what the numbers say together, in sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One check of a run; `ok` None means that the data cannot tell."""

    check: str
    ok: bool | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceAudit:
    """The accept length of one configuration beside what a head of a given offline accuracy reaches.

    `expected_lo` to `expected_hi` in tokens a cycle. `verdict` is "as expected", "short", "fault" or
    "cannot tell"; `why` names the usual cause of the pattern and the next thing to look at.
    """

    num_steps: int
    batch_size: int | None
    measured: float
    expected_lo: float
    expected_hi: float
    verdict: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything `inspect` found in one run."""

    run: str
    engine: str | None
    engine_version: str | None
    model: str | None
    gpu: str | None
    tp_size: int | None
    draft_tp: int | None
    draft_tp_source: str | None = None  # "collectives" if they prove it, "run.json" if only asked for
    num_steps: int | None
    topk: int | None
    num_draft_tokens: int | None
    sources: tuple[str, ...]
    acceptance_kind: str | None
    overlap_schedule: bool | None
    with_stack: bool | None
    configurations: tuple[Configuration, ...]
    health: tuple[HealthCheck, ...]
    warnings: tuple[str, ...] = ()
    backend: str | None = None  # of attention
    heads: int | None = None  # of the target's attention, over all ranks
    draft_model: str | None = None
    ended_early: str | None = None  # why its capture did, "interrupted" if somebody wished so
    model_sizes: dict[str, int] = field(default_factory=dict)  # of the target, as far as known
    calibration: Calibration | None = None  # of a host, where the folder holds one
    graph_sizes: tuple[int, ...] = ()  # that CUDA graphs were captured for: batch sizes, of vLLM tokens
    largest_graph: int | None = None  # where only that is known
    acceptance_audit: tuple[AcceptanceAudit, ...] = ()  # only where an offline accuracy was given


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The object `inspect --json` prints."""

    schema: str = INSPECT_SCHEMA
    warnings: tuple[str, ...] = ()
    runs: tuple[RunReport, ...]
