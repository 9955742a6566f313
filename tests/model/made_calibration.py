"""A host whose draft compute and collectives are known at every group size, calibrated and run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.model.made_runs import allreduce, configuration, inspection, ranks, run
from toolkit.schema.calibration import (
    Calibration,
    CollectiveLatency,
    ForwardKind,
    ForwardTime,
    Latency,
    MeasuredModel,
)
from toolkit.schema.inspection import CollectiveReport, Inspection, RunReport

REDUCES, GATHERS = 3, 1  # of a draft forward
HIDDEN = 4096
TARGET = MeasuredModel(
    name="made",
    layers=32,
    hidden=HIDDEN,
    intermediate=11008,
    heads=32,
    kv_heads=8,
    head_dim=128,
    vocab=32000,
    dtype="bfloat16",
)


@dataclass(frozen=True)
class Host:
    """Times in us: a draft forward takes `fixed_us` and `weights_us` over the ranks, and a bit a token.

    A collective takes its algorithm's time, longer in larger groups and by its bytes.
    """

    fixed_us: float = 40.0
    weights_us: float = 240.0
    token_us: float = 0.5
    algorithms: dict[str, float] = field(default_factory=lambda: {"nccl": 12.0, "one_shot": 4.0})
    in_use: str = "nccl"
    verify_us: float = 4000.0

    def compute_us(self, tp_size: int, tokens: int, *, extend: bool = False) -> float:
        return self.fixed_us + self.weights_us / tp_size + self.token_us * tokens + 15.0 * extend

    def latency_us(self, algorithm: str, group_size: int, message_bytes: int) -> float:
        return self.algorithms[algorithm] * (1 + 0.2 * (group_size / 2 - 1)) + message_bytes / 100_000

    def wire_us(self, algorithm: str, tp_size: int, tokens: int, *, count: int = REDUCES) -> float:
        if tp_size == 1:
            return 0.0
        return (count + GATHERS) * self.latency_us(algorithm, tp_size, tokens * HIDDEN * 2)

    def draft_us(self, tp_size: int, steps: int, batch: int, algorithm: str | None = None) -> float:
        """Return draft and extend of one cycle, collectives included: the truth."""
        used = algorithm or self.in_use
        wide = batch * (steps + 1)
        step = self.compute_us(tp_size, batch) + self.wire_us(used, tp_size, batch)
        extend = self.compute_us(tp_size, wide, extend=True) + self.wire_us(used, tp_size, wide)
        return (steps - 1) * step + extend


def calibration(
    host: Host, sizes: tuple[int, ...] = (1, 2, 4), gpu: str = "g", tp_size: int = 4
) -> Calibration:
    forwards = []
    for size in sizes:
        for batch in (1, 2, 4, 8):
            forwards.append(forward(host, "draft_step", size, batch, 1))
            forwards += [forward(host, "draft_extend", size, batch, tokens) for tokens in (2, 4, 6)]
    for batch in (1, 4, 8):
        forwards += [forward(host, "verify", tp_size, batch, tokens) for tokens in (2, 4, 6)]
    return Calibration(
        gpu=gpu,
        gpu_count=max(sizes),
        sizes=sizes,
        target=TARGET,
        draft=replace(TARGET, layers=1),
        collectives=collectives(host, sizes),
        forwards=tuple(forwards),
    )


def with_totals(host: Host, made: Calibration) -> Calibration:
    """Return a calibration whose forwards were timed with their collectives too, by each algorithm."""
    forwards: list[ForwardTime] = []
    for one in made.forwards:
        if one.tp_size == 1:
            forwards.append(replace(one, total_us=one.compute_us))
            continue
        for algorithm in host.algorithms:
            tokens = one.batch_size * one.num_tokens
            wire = host.wire_us(algorithm, one.tp_size, tokens, count=one.all_reduces)
            total = latency(one.compute_us.median + wire)
            forwards.append(replace(one, total_us=total, algorithm=algorithm))
    return replace(made, forwards=tuple(forwards))


def latency(us: float) -> Latency:
    return Latency(median=us, p10=us * 0.99, p90=us * 1.01)


def forward(host: Host, kind: ForwardKind, size: int, batch: int, tokens: int) -> ForwardTime:
    wide, draft = batch * tokens, kind != "verify"
    compute = host.compute_us(size, wide, extend=kind == "draft_extend") if draft else host.verify_us
    return ForwardTime(
        kind=kind,
        tp_size=size,
        batch_size=batch,
        num_tokens=tokens,
        context_tokens=512,
        compute_us=latency(compute),
        total_us=None,
        algorithm=None,
        all_reduces=0 if size == 1 else REDUCES if draft else 65,
        all_reduce_bytes=wide * HIDDEN * 2,
        all_gathers=0 if size == 1 else GATHERS,
        all_gather_bytes=wide * HIDDEN * 2,
        weight_bytes=int(1e9 / size),
        in_graph=True,
    )


def collectives(host: Host, sizes: tuple[int, ...]) -> tuple[CollectiveLatency, ...]:
    return tuple(
        CollectiveLatency(
            op=op,
            algorithm=algorithm,
            group_size=size,
            message_bytes=count,
            latency_us=latency(host.latency_us(algorithm, size, count)),
            in_graph=True,
        )
        for size in sizes
        if size > 1
        for algorithm in host.algorithms
        for op in ("all_reduce", "all_gather", "broadcast")
        for count in (8_192, 32_768, 131_072, 524_288)
    )


def served(
    host: Host,
    draft_tp: int,
    *,
    tp_size: int = 4,
    steps: tuple[int, ...] = (1, 3, 5),
    batches: tuple[int, ...] = (1, 4),
    timed: bool = True,
    engine: str = "reference",
) -> Inspection:
    """Runs of a server with its draft at `draft_tp`, and of plain decoding; `timed`: collectives too."""
    runs = [
        served_run(host, draft_tp, step, batch, tp_size=tp_size, timed=timed, engine=engine)
        for step in steps
        for batch in batches
    ]
    plain = [
        run(
            f"plain-b{batch}",
            configuration(0, host.verify_us + 200.0, batch_size=batch, context_tokens=512),
            tp_size=tp_size,
            engine=engine,
        )
        for batch in batches
    ]
    return inspection(*runs, *plain)


def served_run(
    host: Host, draft_tp: int, steps: int, batch: int, *, tp_size: int, timed: bool, engine: str
) -> RunReport:
    wide = batch * (steps + 1)
    one = host.compute_us(draft_tp, batch) + host.wire_us(host.in_use, draft_tp, batch)
    phases = {
        "draft": (steps - 1) * one,
        "draft_extend": host.draft_us(draft_tp, steps, batch) - (steps - 1) * one,
        "verify": host.verify_us + host.wire_us(host.in_use, tp_size, wide, count=65),
    }
    shown = {name: us for name, us in phases.items() if us > 0}
    return run(
        f"draft-tp{draft_tp}-k{steps}b{batch}",
        configuration(
            steps,
            sum(phases.values()) + 200.0,
            batch_size=batch,
            context_tokens=512,
            ranks=ranks(**shown),
            collectives=_collectives(host, draft_tp, steps, batch, tp_size) if timed else (),
        ),
        tp_size=tp_size,
        draft_tp=draft_tp,
        engine=engine,
    )


def _collectives(
    host: Host, draft_tp: int, steps: int, batch: int, tp_size: int
) -> tuple[CollectiveReport, ...]:
    wide = batch * (steps + 1)
    found = [allreduce("verify", 66, host.latency_us(host.in_use, tp_size, wide * HIDDEN * 2))]
    if draft_tp > 1:
        count = REDUCES + GATHERS
        extend = host.latency_us(host.in_use, draft_tp, wide * HIDDEN * 2)
        found.append(allreduce("draft_extend", count, extend))
        if steps > 1:
            one = host.latency_us(host.in_use, draft_tp, batch * HIDDEN * 2)
            found.append(allreduce("draft", count * (steps - 1), one))
    return tuple(replace(report, algorithm=None) for report in found)


def with_calibration(runs: Inspection, made: Calibration, name: str = "calib") -> Inspection:
    """Return the runs beside a calibration's folder."""
    return inspection(
        *runs.runs, run(name, calibration=made, engine=None, model=None, gpu=None, tp_size=None)
    )
