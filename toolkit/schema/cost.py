"""The fitted cost model (toolkit.cost-model/1) and what `toolkit model fit` reports (toolkit.fit/1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.schema.calibration import CollectiveLatency, ForwardTime, MeasuredModel

COST_MODEL_SCHEMA = "toolkit.cost-model/1"
FIT_SCHEMA = "toolkit.fit/1"
CHECK_SCHEMA = "toolkit.check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One coefficient of the cycle time. `value` is None when the data does not determine it.

    `per` says what it is multiplied by; `se` is a standard error in the same unit. `left_open`: no
    run sees it alone. Not identified and not left open, it is not told from 0, and forecasts use it.
    """

    name: str
    value: float | None
    se: float | None
    unit: str
    identified: bool
    source: str
    per: str = "cycle"
    left_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOut:
    """Errors on configurations left out of the fit, as fractions; None when nothing could be left out."""

    by: str = "configuration"
    cells: int = 0
    mape: float | None = None
    p90: float | None = None
    covered90: float | None = None
    median_width: float | None = None
    null_mape: float | None = None
    null_cells: int = 0
    mape_on_null_cells: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifiability:
    """Singular values of the weighted, column-scaled design in words.

    `confounded` names, for every (near) null direction, the two terms that trade for each other.
    """

    rank: int
    columns: int
    condition: float
    confounded: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """A run that would narrow the forecasts most."""

    num_steps: int
    batch_size: int
    context_tokens: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCell:
    """One configuration as the fit used it; `cycle_us` None when only its phases were usable."""

    run: str
    num_steps: int
    num_draft_tokens: int
    topk: int
    batch_size: int
    padded_batch_size: int
    context_tokens: int | None
    cycles: int
    cycle_us: float | None
    cycle_source: str | None
    host_bound: bool
    fitted_us: float | None
    accept_length: float | None = None
    overlap: bool = True  # host work hidden behind the GPU's
    wire_us: float | None = None  # collectives in its cycle, by its own trace or spans; None: as the group's
    experts: tuple[int, int] | None = None  # routed experts and those of one token, where they bend its cost
    other_draft_tp: int | None = None  # where it is not the `draft_tp` of the group
    experts_apart: bool = False  # they have terms of their own
    wave_requests: float | None = None  # requests whose attention runs side by side, where that is known
    knee_tokens: float | None = None  # tokens of a forward beyond which they cost more, where seen


@dataclass(frozen=True, slots=True)
class SizedWire:
    """The wire time in us of a collective that carries the states of so many tokens, and its algorithm."""

    tokens: int
    wire_us: float
    algorithm: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCost:
    """Collectives of one kind: how many per forward of their phase, and the wire time of one in us.

    `measured` is False where a count was carried over from the verify forward of the same model.
    `source` is "trace" or "spans"; events of spans do not tell all-reduces from the few other operations.
    """

    phase: str
    op: str
    per_forward: float
    wire_us: float
    measured: bool = True
    source: str = "trace"
    algorithm: str | None = None  # of most of them, where a trace names it
    draft_tp: int | None = None  # of draft phases: where it is not the `draft_tp` of the group
    by_tokens: tuple[SizedWire, ...] = ()  # in order; where two sizes or more were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCalibration:
    """What forecasts take of a calibration of the GPU that a group ran on (`schema.calibration`).

    `differences` are sentences: where the model measured is not the one served.
    """

    run: str
    gpu: str
    sizes: tuple[int, ...]
    draft: MeasuredModel | None
    forwards: tuple[ForwardTime, ...]
    collectives: tuple[CollectiveLatency, ...]
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceCurve:
    """Real acceptance pooled over runs: drafts kept at position j of those that could be.

    `at_risk[j-1]` request-cycles had kept j-1 drafts and proposed a j-th; `kept[j-1]` of them kept
    it. `design_effect` divides the counts: cycles of one request are alike.
    """

    at_risk: tuple[float, ...]
    kept: tuple[float, ...]
    design_effect: float
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeSetting:
    """A speculative setting that was run, its cycles, and the accept length it had (None: not known)."""

    num_steps: int
    num_draft_tokens: int
    topk: int
    cycles: int
    accept_length: float | None = None
    acceptance_kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Relative errors of the fit. The scales widen intervals until held-out configurations are covered.

    `run_spread` is between runs; the spreads of plain steps, speculative cycles and host-bound
    cycles are at least that, and as large as the misfit of their rows.
    """

    run_spread: float
    replicate_dof: int
    plain_spread: float
    speculative_spread: float
    floor_spread: float
    plain_scale: float = 1.0
    speculative_scale: float = 1.0
    plain_run_spread: float | None = None  # None, in older files: `run_spread`
    speculative_run_spread: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupModel:
    """The sub-model of one (engine, model, gpu, tp_size) and draft model.

    `columns` name the coefficients; `solution` and each row of `draws` hold one value for each, in
    us. `vertices` are the extreme non-negative solutions that reproduce the data equally well (empty
    when there is only one). `null_space` rows span what the data leaves open, in coefficients
    divided by `norms`. `host_cycle_us` is a floor under the speculative cycle and no summand.
    """

    engine: str | None
    engine_versions: tuple[str, ...]
    model: str | None
    gpu: str | None
    tp_size: int | None
    draft_tp: int | None
    overlap_schedule: bool | None
    columns: tuple[str, ...]
    norms: tuple[float, ...]
    solution: tuple[float, ...]
    null_space: tuple[tuple[float, ...], ...]
    vertices: tuple[tuple[float, ...], ...]
    draws: tuple[tuple[float, ...], ...]
    terms: tuple[Term, ...]
    collectives: tuple[CollectiveCost, ...]
    cells: tuple[FittedCell, ...]
    noise: Noise
    holdout: HoldOut
    identifiability: Identifiability
    next_runs: tuple[NextRun, ...]
    settings: tuple[SpeculativeSetting, ...] = ()
    rate_convention: str | None = None
    rate_convention_source: str | None = None
    curve: AcceptanceCurve | None = None
    calibration: HostCalibration | None = None
    warnings: tuple[str, ...] = ()
    draft_model: str | None = None
    graph_sizes: tuple[
        int, ...
    ] = ()  # captured for speculation: batch sizes, of vLLM tokens; () is not known
    plain_graph_sizes: tuple[int, ...] = ()
    other_drafts: tuple[str, ...] = ()  # of the groups that differ from this one in their draft model alone


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """What `model fit` writes and `predict` reads."""

    schema: str = COST_MODEL_SCHEMA
    toolkit_version: str = ""
    seed: int = 0
    runs: int = 0
    groups: tuple[GroupModel, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """One group as `model fit --json` prints it; `configurations` is a count."""

    engine: str | None
    model: str | None
    gpu: str | None
    tp_size: int | None
    configurations: int
    terms: tuple[Term, ...]
    holdout: HoldOut
    identifiability: Identifiability
    next_runs: tuple[NextRun, ...]
    run_spread: float
    cells: tuple[FittedCell, ...] = ()
    warnings: tuple[str, ...] = ()
    draft_model: str | None = None
    other_drafts: tuple[str, ...] = ()
    calibration: str | None = None  # the run folder of the one that its forecasts of a draft TP use
    calibrated_draft_tps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """The object `model fit --json` prints."""

    schema: str = FIT_SCHEMA
    model: str = ""
    runs: int = 0
    groups: tuple[GroupReport, ...] = ()
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPhase:
    """Predicted against measured time of draft and extend together, waits left out, in ms."""

    measured_ms: float
    predicted_ms: float
    lo_ms: float
    hi_ms: float
    error: float
    inside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCell:
    """Predicted against measured cycle of one configuration, in ms; `error` is predicted/measured - 1."""

    run: str
    num_steps: int
    num_draft_tokens: int
    topk: int
    batch_size: int
    context_tokens: int | None
    measured_ms: float
    predicted_ms: float
    lo_ms: float
    hi_ms: float
    error: float
    inside: bool
    extrapolated: tuple[str, ...] = ()
    draft_tp: int | None = None
    draft: CheckedPhase | None = None
    group: str = ""  # whose sub-model predicts it, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The object `model check --json` prints."""

    schema: str = CHECK_SCHEMA
    model: str = ""
    configurations: tuple[CheckedCell, ...] = ()
    mape: float | None = None
    covered90: float | None = None
    draft_mape: float | None = None  # of draft and extend together
    warnings: tuple[str, ...] = ()
