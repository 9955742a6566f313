"""Torch profiler traces with a known answer: what is launched on each rank, and when, is written down.

A `Cycles` writer advances a host clock and a GPU stream per rank; collectives couple the ranks. It
knows what every phase took, so a test can compare.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
NORM = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)"
ATTENTION = "_fwd_grouped_kernel_stage1"
ARGMAX = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(...)"
)
ALL_REDUCE = "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, {ranks}u, true>(...)"
ALL_REDUCES = {  # by the kind of all-reduce that an engine chose
    "one_shot_push": ALL_REDUCE,
    "nccl": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "cross_device": "void vllm::cross_device_reduce_1stage<__nv_bfloat16, {ranks}>(vllm::RankData*, int)",
    "fused": "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
    "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, {ranks}, true>(...)",
}
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ACCEPT = "void VerifyTreeGreedy<int, long>(int*, int*, int*, long*)"
TREE = "build_tree_efficient(long*, long*, long*, bool*)"
REJECTION = "rejection_greedy_sample_kernel"
LAYER = (NORM, GEMM, ATTENTION, GEMM, "AR", NORM, GEMM, GEMM, "AR")
DRAFT = (NORM, GEMM, ATTENTION, GEMM, "AR", NORM, GEMM, GEMM, "AR", GEMM, "AG", ARGMAX)
WIRE_US = 3.0
BASE_US = 1_000_000.0
_SLOWER = 1.1


def target(layers: int) -> tuple[str, ...]:
    """Return the kernels of a target forward."""
    return (*LAYER * layers, GEMM, "AG")


@dataclass
class Rank:
    """One rank's clocks and events."""

    number: int
    host_us: float = 0.0
    gpu_us: float = 0.0
    correlation: int = 100
    clock_off_us: float = 0.0
    clock_drift: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, cat: str, name: str, ts: float, dur: float, **args: Any) -> None:
        """Append a complete event."""
        tid = self.number if cat == "kernel" else 77
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": tid,
                "tid": tid,
                "ts": round(BASE_US + ts * (1 + self.clock_drift) + self.clock_off_us, 3),
                "dur": dur,
                "args": args,
            }
        )


class Cycles:
    """Writes the same cycles on all ranks and keeps what each phase took, by rank."""

    def __init__(
        self,
        ranks: int = 1,
        *,
        seed: int = 1,
        lose: float = 0.0,
        clocks_us: float = 0.0,
        drift_ppm: float = 0.0,
        slow: int | None = None,
        all_reduce: str = "one_shot_push",
        steady: bool = False,
    ) -> None:
        """`clocks_us` and `drift_ppm`: how far ranks' clocks are off at most; `slow`: a rank of slow kernels.

        `steady`: a kernel takes nearly as long in each replay, as real ones do.
        """
        self.random = random.Random(seed)
        clocks = random.Random(seed + 1)
        self.ranks = [
            Rank(
                number,
                clock_off_us=clocks.uniform(-clocks_us, clocks_us) if number else 0.0,
                clock_drift=clocks.uniform(-drift_ppm, drift_ppm) * 1e-6 if number else 0.0,
            )
            for number in range(ranks)
        ]
        self.lose = lose
        self.slow = slow
        self.steady = steady
        self.all_reduce = ALL_REDUCES[all_reduce]
        self.truth: dict[str, list[list[float]]] = {}
        self.waits: dict[str, list[list[float]]] = {}

    def work(
        self,
        names: Sequence[str],
        *,
        phase: str | None = None,
        graph: bool = True,
        lag_us: Sequence[float] = (),
    ) -> list[tuple[float, float]]:
        """Launch kernels on every rank, as one graph or one by one; return start and end by rank."""
        launches = [self._launch(rank, len(names), graph) for rank in self.ranks]
        for rank, lag in zip(self.ranks, (*lag_us, *[0.0] * len(self.ranks)), strict=False):
            rank.gpu_us = max(rank.gpu_us + 1.0, rank.host_us) + lag
        spans = [[float("inf"), 0.0] for _ in self.ranks]
        waits = [0.0] * len(self.ranks)
        for position, name in enumerate(names):
            last = max(rank.gpu_us for rank in self.ranks)
            for rank, ids, span in zip(self.ranks, launches, spans, strict=True):
                duration = self._duration_us(position)
                if rank.number == self.slow:
                    duration *= _SLOWER
                if name in ("AR", "AG"):
                    waits[rank.number] += last - rank.gpu_us
                    duration = last - rank.gpu_us + WIRE_US
                    name_here = self.all_reduce.format(ranks=len(self.ranks)) if name == "AR" else ALL_GATHER
                else:
                    name_here = name
                span[0], span[1] = min(span[0], rank.gpu_us), rank.gpu_us + duration
                if self.random.random() >= self.lose:
                    rank.add("kernel", name_here, rank.gpu_us, duration, correlation=ids[position], stream=7)
                rank.gpu_us += duration + 0.5
        if phase:
            self.truth.setdefault(phase, []).append([end - start for start, end in spans])
            self.waits.setdefault(phase, []).append(waits)
        return [(start, end) for start, end in spans]

    def _duration_us(self, position: int) -> float:
        if self.steady:
            return round((2.0 + 3.0 * (position * 7 % 10) / 10) * self.random.uniform(0.97, 1.03), 3)
        return round(2.0 + 3.0 * self.random.random(), 3)

    def _launch(self, rank: Rank, kernels: int, graph: bool) -> list[int]:
        ids = []
        for _ in range(1 if graph else kernels):
            rank.correlation += 1
            name = "cudaGraphLaunch" if graph else "cudaLaunchKernel"
            rank.add("cuda_runtime", name, rank.host_us, 2.0, correlation=rank.correlation)
            rank.host_us += 4.0
            ids.append(rank.correlation)
        return ids * kernels if graph else ids

    def host(self, us: float) -> None:
        """Let every host work without launching."""
        for rank in self.ranks:
            rank.host_us += us

    def wait_for_gpu(self) -> None:
        """Let every host wait until its GPU is done."""
        for rank in self.ranks:
            rank.host_us = max(rank.host_us, rank.gpu_us)

    def named(self, name: str, action: Any) -> Any:
        """Run `action` inside a host range of that name."""
        starts = [rank.host_us for rank in self.ranks]
        self.host(0.5)
        result = action()
        self.host(0.5)
        for rank, start in zip(self.ranks, starts, strict=True):
            rank.add("user_annotation", name, start, rank.host_us - start)
        return result

    def write(
        self, folder: Path, *, stacks: bool = False, packed: bool = False, world: int | None = None
    ) -> list[Path]:
        """Write one trace a rank, as the profiler does."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for rank in self.ranks:
            trace = self.trace(rank, stacks, world)
            path = folder / f"made-TP-{rank.number}.trace.json{'.gz' if packed else ''}"
            text = json.dumps(trace, indent=1).encode()
            path.write_bytes(gzip.compress(text) if packed else text)
            paths.append(path)
        return paths

    def trace(self, rank: Rank, stacks: bool = False, world: int | None = None) -> dict[str, Any]:
        """Return one rank's trace object."""
        size = world or len(self.ranks)
        group = {"pg_name": "0", "pg_desc": "tp", "pg_size": size, "ranks": list(range(size))}
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
            "with_stack": int(stacks),
            "distributedInfo": {
                "backend": "nccl",
                "rank": rank.number,
                "world_size": size,
                "pg_config": [group],
            },
            "baseTimeNanoseconds": 1_790_000_000_000_000_000,
            "traceEvents": rank.events,
            "traceName": "made",
        }


@dataclass(frozen=True)
class Engine:
    """Which work an engine launches in a cycle, and whether it names it."""

    steps: int = 3
    layers: int = 4
    named: bool = True
    graphs: bool = True
    extend_graph: bool = True


def eagle_cycles(cycles: Cycles, count: int, engine: Engine = Engine()) -> Cycles:
    """Append `count` SGLang-like EAGLE cycles."""
    name = cycles.named if engine.named else (lambda _, action: action())
    for _ in range(count):
        name("draft", lambda: _draft(cycles, engine))
        name(
            "step[TARGET_VERIFY bs=1]",
            lambda: cycles.work(target(engine.layers), phase="verify", graph=engine.graphs),
        )
        spans = cycles.work((ARGMAX, ACCEPT, "fill_bonus_tokens"), graph=False)
        cycles.truth.setdefault("sample", []).append([end - start for start, end in spans])
        name("draft_extend", lambda: _extend(cycles, engine))
        cycles.wait_for_gpu()
        cycles.host(40.0)
    return cycles


def _draft(cycles: Cycles, engine: Engine) -> None:
    cycles.work(("assign_draft_cache_locs",), graph=False)
    if engine.steps > 1:
        cycles.work(DRAFT * (engine.steps - 1), phase="draft", graph=engine.graphs)
    cycles.work((TREE,), graph=False)


def _extend(cycles: Cycles, engine: Engine) -> None:
    cycles.work(("compute_position_kernel",), graph=False)
    cycles.work(DRAFT[:-1], phase="draft_extend", graph=engine.graphs and engine.extend_graph)
    cycles.work((ARGMAX,), graph=False)


def plain_cycles(cycles: Cycles, count: int, layers: int = 4, *, named: bool = True) -> Cycles:
    """Append `count` plain decoding steps."""
    name = cycles.named if named else (lambda _, action: action())
    for _ in range(count):
        name("step[DECODE bs=1]", lambda: cycles.work(target(layers), phase="decode"))
        cycles.work((ARGMAX,), graph=False)
        cycles.wait_for_gpu()
        cycles.host(20.0)
    return cycles
