"""The table of kernel names against real names of engines, libraries and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.analysis.trace.kernel_names import kernel_kind
from toolkit.ingest.traces.chrome import read_trace

ONE_SHOT = (
    "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 2u, true>"
    "((anonymous namespace)::AllReducePushData)"
)
COLLECTIVES = [
    (ONE_SHOT, "all_reduce", "one_shot_push", 2),
    ("void all_reduce_1shot_pull_kernel<__nv_bfloat16, 8u>(Params)", "all_reduce", "one_shot_pull", 8),
    ("void all_reduce_2shot_pull_kernel<__nv_bfloat16, 4u>(Params)", "all_reduce", "two_shot_pull", 4),
    (
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 4>(sglang::RankData*)",
        "all_reduce",
        "cross_device_1stage",
        4,
    ),
    (
        "void vllm::cross_device_reduce_2stage<nv_bfloat16, 8>(vllm::RankData*)",
        "all_reduce",
        "cross_device_2stage",
        8,
    ),
    ("void vllm::cross_device_all_gather<nv_bfloat16, 8>(vllm::RankData*)", "all_gather", "cross_device", 8),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "all_reduce",
        "nccl_ring_ll",
        None,
    ),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)",
        "all_reduce",
        "nccl_tree_ll128",
        None,
    ),
    (
        "ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
        "all_reduce",
        "nccl_ring_ll_sum_half",
        None,
    ),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather", "nccl_ring_ll", None),
    (
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)",
        "reduce_scatter",
        "nccl_ring_simple",
        None,
    ),
    ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "broadcast", "nccl_ring_ll", None),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv", "nccl", None),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::"
        "trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 4, true>(Params)",
        "all_reduce",
        "fused_one_shot",
        4,
    ),
    ("void two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16*)", "all_reduce", "two_shot", None),
    ("void multimem_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16*)", "all_reduce", "multimem", None),
]
CLASSES = [
    ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", "gemm"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float>(...)", "gemm"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "gemm"),
    ("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(...)", "layer"),
    ("void gemma_rmsnorm_kernel<__nv_bfloat16>(...)", "layer"),
    (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<...>>>(...)",
        "attention",
    ),
    ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<...>(...)", "attention"),
    ("_fwd_grouped_kernel_stage1", "attention"),
    ("kernel_unified_attention_2d", "attention"),
    ("build_tree_efficient(long*, long*, long*, bool*)", "tree"),
    ("void VerifyTreeGreedy<int, long>(int*, int*)", "accept"),
    ("void tree_speculative_sampling_target_only<float>(...)", "accept"),
    ("rejection_greedy_sample_kernel", "accept"),
    ("rejection_random_sample_kernel", "accept"),
    ("eagle_prepare_inputs_padded_kernel", "draft_setup"),
    ("generate_draft_decode_kv_indices", "draft_setup"),
    ("create_flashinfer_kv_indices_triton", "setup"),
    ("void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(...)", "sampling"),
    ("Memcpy DtoH (Device -> Pinned)", "copy"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(...)", "other"),
]


@pytest.mark.parametrize(("name", "op", "algorithm", "ranks"), COLLECTIVES)
def test_collectives_are_known_by_name(name: str, op: str, algorithm: str, ranks: int | None) -> None:
    kind = kernel_kind(name)
    assert (kind.kind, kind.op, kind.algorithm) == ("collective", op, algorithm)
    if ranks is not None:
        assert kind.group_size == ranks


@pytest.mark.parametrize(("name", "kind"), CLASSES)
def test_other_kernels_are_classed_by_name(name: str, kind: str) -> None:
    assert kernel_kind(name).kind == kind


def test_no_model_kernel_of_the_recorded_runs_is_unknown(traces: Path) -> None:
    trace = read_trace(next(traces.glob("*tp2-k3-b1/trace-TP-0*")))
    unknown = {
        name
        for i, name in enumerate(trace.names)
        if (trace.kernels.name == i).any() and kernel_kind(name).kind == "other"
    }
    helpers = ("at::native", "at_cuda_detail", "triton_poi", "elementwise_kernel_with_index", "_gather_rows")
    assert {name for name in unknown if not any(helper in name for helper in helpers)} == set()
