"""Constructed inspections whose cost is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolkit.schema.inspection import (
    AcceptanceReport,
    CollectiveReport,
    Configuration,
    Inspection,
    PhaseTime,
    RankReport,
    RunReport,
    Spread,
    Throughput,
)


def spread(us: float, se: float = 0.0, count: int = 100) -> Spread:
    return Spread(median=us, p10=us, p90=us, mean=us, se=se, count=count)


def configuration(steps: int, cycle_us: float | None, **changed: Any) -> Configuration:
    fields: dict[str, Any] = {
        "batch_size": 1,
        "padded_batch_size": None,
        "num_steps": steps,
        "num_draft_tokens": steps + 1,
        "topk": 1,
        "context_tokens": None,
        "cycles": 100,
        "sources": ("spans",),
        "cycle_us": None if cycle_us is None else spread(cycle_us),
        "cycle_source": None if cycle_us is None else "spans",
    }
    return Configuration(**{**fields, **changed})


def run(name: str, *configurations: Configuration, **changed: Any) -> RunReport:
    fields: dict[str, Any] = {
        "run": name,
        "engine": "sglang",
        "engine_version": None,
        "model": "m",
        "gpu": "g",
        "tp_size": 1,
        "draft_tp": None,
        "num_steps": None,
        "topk": None,
        "num_draft_tokens": None,
        "sources": ("spans",),
        "acceptance_kind": None,
        "overlap_schedule": True,
        "with_stack": False,
        "configurations": configurations,
        "health": (),
    }
    return RunReport(**{**fields, **changed})


def inspection(*runs: RunReport) -> Inspection:
    return Inspection(runs=runs)


def sweep(*pairs: tuple[int, float], batch: int = 1) -> Inspection:
    """One run for each (steps, cycle_us)."""
    return inspection(
        *(run(f"k{steps}b{batch}", configuration(steps, us, batch_size=batch)) for steps, us in pairs)
    )


def acceptance(length: float | None, **changed: Any) -> AcceptanceReport:
    fields: dict[str, Any] = {"accept_length": length, "cycles": 1000}
    return AcceptanceReport(**{**fields, **changed})


def ranks(**graph_us: float) -> tuple[RankReport, ...]:
    phases = {phase: PhaseTime(graph_us=spread(us)) for phase, us in graph_us.items()}
    return (RankReport(tp_rank=0, gpu_busy_fraction=None, phases=phases),)


def allreduce(phase: str, per_cycle: float, wire_us: float) -> CollectiveReport:
    return CollectiveReport(
        phase=phase,
        op="all_reduce",
        algorithm="one_shot_push",
        group_size=2,
        message_bytes=None,
        per_cycle=per_cycle,
        wire_us=wire_us,
        wait_us_per_cycle=0.0,
        first_wait_us=0.0,
        first_wait_max_us=0.0,
        matched_fraction=1.0,
    )


def timed(phase: str, per_cycle: float, wire_us: float | None) -> CollectiveReport:
    """All collectives of a phase as spans have them."""
    made = allreduce(phase, per_cycle, 0.0)
    return replace(
        made, op="collective", algorithm=None, wire_us=wire_us, matched_fraction=None, source="spans"
    )


def founding_case() -> Inspection:
    """A log of 5 steps, plain decoding in a table, and a throughput without accept length."""
    log = run(
        "server.log",
        configuration(
            5,
            27_800.0,
            cycles=50,
            cycle_source="log",
            sources=("log",),
            acceptance=acceptance(1.91, rate=0.32, rate_kind="length/tokens", cycles=50),
        ),
        model="kimi",
        tp_size=8,
    )
    table = run(
        "measurements.csv",
        configuration(0, 11_111.0, cycle_source="table", row=2, cycles=1),
        configuration(5, None, row=3, throughput_tok_s=Throughput(measured=71.3, measured_by="table")),
        model="kimi",
        tp_size=8,
    )
    return inspection(log, table)


def run_on_two_gpus() -> RunReport:
    """A run of 3 steps at TP 2: 65 all-reduces of 10 us in its verify forward, 6 in its draft pass."""
    return run(
        "tp2",
        configuration(
            3,
            6000.0,
            ranks=ranks(verify=4000.0, draft=500.0, draft_extend=250.0),
            collectives=(allreduce("verify", 65, 10.0), allreduce("draft", 6, 10.0)),
        ),
        tp_size=2,
    )
