"""What `toolkit calibrate` measured on a host without a server (toolkit.calibration/1, calibration.json)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CALIBRATION_SCHEMA = "toolkit.calibration/1"
CollectiveOp = Literal["all_reduce", "all_gather", "broadcast"]
ForwardKind = Literal["draft_step", "draft_extend", "verify", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Median of repeats in us, with the 10th and 90th percentile of them."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredModel:
    """Sizes of a model whose forwards were measured, as its config.json has them."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLatency:
    """What one more collective adds to a chain of them in a graph, all ranks in step, in us.

    `message_bytes` as nccl-tests count: the buffer of a rank (all-reduce, broadcast), the whole array
    (all-gather). `algorithm`: "nccl", "one_shot" and "two_shot" over symmetric memory, an engine's own
    ("sglang_custom", "vllm_custom"), "star" where ranks talk without a GPU.
    """

    op: CollectiveOp
    algorithm: str
    group_size: int
    message_bytes: int
    latency_us: Latency
    in_graph: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTime:
    """One forward of a rank's shard, in us.

    `compute_us` leaves its collectives out, so it can be had on one GPU for any `tp_size`; `total_us`
    holds them (`algorithm`), None where the host has too few GPUs. `num_tokens` of each of `batch_size`
    requests. `weight_bytes` is what the shard reads.
    """

    kind: ForwardKind
    tp_size: int
    batch_size: int
    num_tokens: int
    context_tokens: int
    compute_us: Latency
    total_us: Latency | None
    algorithm: str | None
    all_reduces: int
    all_reduce_bytes: int  # of one
    all_gathers: int
    all_gather_bytes: int  # of one
    weight_bytes: int
    in_graph: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBandwidth:
    """Of one GPU (or of the host's memory), in GB/s: reading, and copying counted both ways."""

    rank: int
    read_gb_per_s: float
    copy_gb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One calibration of one host: the object in calibration.json.

    `sizes` are the tensor-parallel sizes asked for; collectives exist for those that the host has GPUs for.
    `skipped` are sentences: what was not measured, and why.
    """

    schema: str = CALIBRATION_SCHEMA
    toolkit_version: str = ""
    device: str = "cuda"
    gpu: str | None = None  # as run.json names it
    gpu_count: int = 0
    torch_version: str | None = None
    nccl_version: str | None = None
    sizes: tuple[int, ...] = ()
    target: MeasuredModel | None = None
    draft: MeasuredModel | None = None
    draft_vocab: int | None = None
    memory: tuple[MemoryBandwidth, ...] = ()
    collectives: tuple[CollectiveLatency, ...] = ()
    forwards: tuple[ForwardTime, ...] = ()
    skipped: tuple[str, ...] = ()
