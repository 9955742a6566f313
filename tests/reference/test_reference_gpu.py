"""CUDA graphs of the reference engine: they give what the same passes give kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
Serve = Callable[..., Any]
PROMPTS = [[3, 1, 4, 1, 5], list(range(10, 40)), [200, 100]]
GPU = ("--device", "cuda", "--dtype", "float32", "--context", 512)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_replayed_graphs_give_the_tokens_of_single_kernels(serve: Serve, steps: int) -> None:
    eager = serve(*GPU, "--steps", steps, "--disable-cuda-graph")
    captured = serve(*GPU, "--steps", steps)
    assert captured.outputs(PROMPTS, 60) == eager.outputs(PROMPTS, 60)
    assert captured.call("/server_info")["disable_cuda_graph"] is False


@pytest.mark.parametrize("draft_tp", [1, 2])
def test_two_gpus_give_the_tokens_of_one(serve: Serve, draft_tp: int) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    one = serve(*GPU, "--steps", 3)
    two = serve(*GPU, "--steps", 3, "--tp", 2, "--draft-tp", draft_tp)
    assert two.outputs(PROMPTS, 60) == one.outputs(PROMPTS, 60)


@pytest.mark.parametrize("graphs", [(), ("--disable-cuda-graph",)], ids=["graphs", "eager"])
def test_one_shot_all_reduces_give_the_tokens_of_nccl(serve: Serve, graphs: tuple[str, ...]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    nccl = serve(*GPU, "--steps", 3, "--tp", 2)
    fast = serve(*GPU, "--steps", 3, "--tp", 2, "--collectives", "one-shot", *graphs)
    assert fast.call("/server_info")["collectives"] == "one-shot"
    assert fast.outputs(PROMPTS, 60) == nccl.outputs(PROMPTS, 60)
