"""What a kernel's name says about it: the one table of names that every analysis uses.

Rules are tried in order and the first match wins. Names are those of SGLang 0.5.9 to 0.5.23, vLLM
0.22 to 0.33, FlashInfer, cuBLAS, CUTLASS, NCCL, RCCL and torch; tests hold the table against real ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

KernelClass = Literal[
    "collective",
    "gemm",
    "attention",
    "layer",
    "tree",
    "accept",
    "sampling",
    "draft_setup",
    "setup",
    "copy",
    "other",
]


@dataclass(frozen=True, slots=True)
class KernelKind:
    """Class of a kernel; `op`, `algorithm` and `group_size` are set for collectives."""

    kind: KernelClass
    op: str | None = None
    algorithm: str | None = None
    group_size: int | None = None


_COLLECTIVES: tuple[tuple[str, str, str], ...] = (
    # NCCL and RCCL: the algorithm and protocol are part of the name
    (
        r"(?:nccl|rccl)\w*?Kernel\w*?_?AllReduce\w*?_(?P<algorithm>(?:RING|TREE|NVLS|COLLNET|PAT)\w*)",
        "all_reduce",
        "",
    ),
    (r"(?:nccl|rccl)\w*?_?AllReduce", "all_reduce", "nccl"),
    (r"(?:nccl|rccl)\w*?_?AllGather\w*?_(?P<algorithm>(?:RING|TREE|NVLS|COLLNET|PAT)\w*)", "all_gather", ""),
    (r"(?:nccl|rccl)\w*?_?AllGather", "all_gather", "nccl"),
    (
        r"(?:nccl|rccl)\w*?_?ReduceScatter\w*?_(?P<algorithm>(?:RING|TREE|NVLS|COLLNET|PAT)\w*)",
        "reduce_scatter",
        "",
    ),
    (r"(?:nccl|rccl)\w*?_?ReduceScatter", "reduce_scatter", "nccl"),
    (r"(?:nccl|rccl)\w*?_?Broadcast(?:\w*?_(?P<algorithm>RING\w*))?", "broadcast", "nccl"),
    (r"(?:nccl|rccl)\w*?_?SendRecv", "send_recv", "nccl"),
    (r"(?:nccl|rccl)(?:Dev)?Kernel", "collective", "nccl"),
    # all-reduce fused with the norm after it
    (
        r"allreduce_fusion_kernel_oneshot|trtllm_allreduce_fusion.*one_?shot|oneshotAllreduceFusion",
        "all_reduce",
        "fused_one_shot",
    ),
    (
        r"allreduce_fusion_kernel_twoshot|trtllm_allreduce_fusion.*two_?shot|twoshotAllreduce",
        "all_reduce",
        "fused_two_shot",
    ),
    (
        r"allreduce_fusion|allReduceFusion|userbuffers|trtllm_allreduce|fused_allreduce_rmsnorm",
        "all_reduce",
        "fused",
    ),
    (r"moe(?:_finalize)?_allreduce|mnnvl.*allreduce|allreduce_mnnvl", "all_reduce", "fused"),
    # the engines' own
    (r"cross_device_all_gather", "all_gather", "cross_device"),
    (r"cross_device_reduce_scatter", "reduce_scatter", "cross_device"),
    (r"cross_device_reduce_1stage", "all_reduce", "cross_device_1stage"),
    (r"cross_device_reduce_2stage", "all_reduce", "cross_device_2stage"),
    (r"cross_device_reduce", "all_reduce", "cross_device"),
    (r"all_?reduce_(?:one_?shot|1_?shot)_push", "all_reduce", "one_shot_push"),
    (r"all_?reduce_(?:one_?shot|1_?shot)_pull", "all_reduce", "one_shot_pull"),
    (r"all_?reduce_(?:two_?shot|2_?shot)_push", "all_reduce", "two_shot_push"),
    (r"all_?reduce_(?:two_?shot|2_?shot)_pull", "all_reduce", "two_shot_pull"),
    (r"all_?reduce_(?:one_?shot|1_?shot)|one_?shot_all_?reduce", "all_reduce", "one_shot"),
    (r"all_?reduce_(?:two_?shot|2_?shot)|two_?shot_all_?reduce", "all_reduce", "two_shot"),
    (r"multimem_(?:one_?shot_)?all_?reduce", "all_reduce", "multimem"),
    (r"multimem_all_?gather", "all_gather", "multimem"),
    (r"quickreduce|quick_?reduce|allreduce_prototype_twoshot", "all_reduce", "quick_reduce"),
    (r"mscclpp.*all_?reduce|allreduce_LL", "all_reduce", "mscclpp"),
    (r"pcie_ipc.*all_?reduce|ipc_?all_?reduce", "all_reduce", "pcie_ipc"),
    (r"(?:^|[^a-z])all_?reduce|allreduce", "all_reduce", "other"),
    (r"(?:^|[^a-z])all_?gather|allgather", "all_gather", "other"),
    (r"reduce_?scatter", "reduce_scatter", "other"),
    (r"all_?to_?all|deep_?ep|internode::|intranode::", "all_to_all", "other"),
)
# pure memory layout work of torch that only sounds like a collective or a model kernel
_NOT_COLLECTIVE = re.compile(r"^void at::native::|^triton_poi_", re.IGNORECASE)
_CLASSES: tuple[tuple[str, KernelClass], ...] = (
    (r"build_(?:draft_)?tree|organize_draft_results|build_dynamic_tree", "tree"),
    (
        r"verify_?tree|tree_speculative_sampling|rejection_(?:greedy|random)?_?sample|sample_recovered|chain_speculative",
        "accept",
    ),
    (r"fill_bonus|accept_(?:index|length|token)|rejection_sampl|eagle_verify|strict_rejection", "accept"),
    (r"assign_draft_cache_locs|generate_draft_decode_kv_indices|create_draft_kv_indices", "draft_setup"),
    (
        r"eagle_prepare|prepare_eagle|eagle_step|copy_and_expand_eagle|prepare_(?:prefill|decode)_inputs_kernel",
        "draft_setup",
    ),
    (
        r"top_?k_?top_?p|top_?p|min_?p|Sampling|gumbel|softmax_warp|cunn_SoftMax|ArgMax|argmax|multinomial",
        "sampling",
    ),
    (r"gatherTopK|bitonicSort|radixFindKthValues|topk_(?:softmax|gating)|penalt|logit_bias", "sampling"),
    (
        r"kv_indices|num_kv_splits|cache_locs|req_to_token|kv_indptr|block_table|slot_mapping|compute_position",
        "setup",
    ),
    (r"^memcpy|^memset|memcpy32", "copy"),
    (
        r"rms_?norm|layer_?norm|rope|rotary|act_and_mul|silu|gelu|swiglu|moe_align|per_token.*quant|quantize",
        "layer",
    ),
    (r"store_?kv_?cache|reshape_and_cache|set_mla_kv|concat_and_cache", "layer"),
    (
        r"nvjet|gemm|gemv|cublas|split_?K|_matmul|ampere_.*(?:16816|1688)|sm\d+_xmma|xmma_|fused_moe|marlin|wgmma",
        "gemm",
    ),
    (
        r"flash::|flash_?attn|flash_fwd|fmha|attention|paged_?attn|_mla|mla_|_fwd_kernel|_fwd_grouped_kernel",
        "attention",
    ),
    (
        r"Batch(?:Decode|Prefill)With|SinglePrefill|decode_kernel|merge_state|merge_attn|kernel_unified_attn",
        "attention",
    ),
    (r"cutlass", "gemm"),
)
_COLLECTIVE_RULES = tuple(
    (re.compile(text, re.IGNORECASE), op, algorithm) for text, op, algorithm in _COLLECTIVES
)
_CLASS_RULES = tuple((re.compile(text, re.IGNORECASE), kind) for text, kind in _CLASSES)
_GROUP_IN_TEMPLATE = re.compile(r"<[^<>]*?,\s*(\d{1,2})u?\s*[,>]")
_OTHER = KernelKind("other")
_WIDEST_GROUP = 72  # GPUs of the largest NVLink domain


@lru_cache(maxsize=1 << 20)
def kernel_kind(name: str) -> KernelKind:
    """Return what a kernel's (or copy's) name says about it."""
    if not _NOT_COLLECTIVE.search(name):
        for rule, op, algorithm in _COLLECTIVE_RULES:
            found = rule.search(name)
            if found:
                named = found.groupdict().get("algorithm") or ""
                return KernelKind("collective", op, _algorithm(named) or algorithm, _group_size(name))
    for rule, kind in _CLASS_RULES:
        if rule.search(name):
            return KernelKind(kind)
    return _OTHER


def _algorithm(named: str) -> str | None:
    """Return NCCL's algorithm and protocol as one word, like nccl_ring_ll."""
    return f"nccl_{named.strip('_').lower()}" if named else None


def _group_size(name: str) -> int | None:
    """Return the number of ranks that custom all-reduces carry as a template argument."""
    found = _GROUP_IN_TEMPLATE.search(name)
    size = int(found[1]) if found else 0
    return size if 2 <= size <= _WIDEST_GROUP else None


def class_mask(names: Sequence[str], ids: NDArray[np.int32], *classes: KernelClass) -> NDArray[np.bool_]:
    """Return, for each id (an index into `names`), whether its kernel is of one of `classes`."""
    wanted = np.array([kernel_kind(name).kind in classes for name in names] or [False])
    return wanted[ids] if len(ids) else np.zeros(0, dtype=bool)
