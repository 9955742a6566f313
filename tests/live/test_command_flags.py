"""Command lines become settings by the engines' own names, and are shown without secrets."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.live.command_flags import command_flags, masked_command


@pytest.mark.parametrize(
    ("engine", "line", "expected"),
    [
        ("sglang", "--tp 2 --model-path m", {"tp_size": 2, "model_path": "m"}),
        (
            "sglang",
            "--tensor-parallel-size=4 --disable-radix-cache",
            {"tp_size": 4, "disable_radix_cache": True},
        ),
        ("vllm", "vllm serve org/model -tp 2", {"model": "org/model", "tensor_parallel_size": 2}),
        (
            "vllm",
            '--speculative-config {"num_speculative_tokens":3}',
            {"speculative_config": {"num_speculative_tokens": 3}},
        ),
        ("vllm", "--speculative-config.method eagle3", {"speculative_config": {"method": "eagle3"}}),
        ("vllm", "--no-async-scheduling", {"async_scheduling": False}),
        ("sglang", "--cuda-graph-bs 1 2 4", {"cuda_graph_bs": [1, 2, 4]}),
        (
            "sglang",
            "--mem-fraction-static 0.5 --schedule-conservativeness -1",
            {"mem_fraction_static": 0.5, "schedule_conservativeness": -1},
        ),
    ],
)
def test_flags_have_the_engines_names(engine: str, line: str, expected: dict[str, object]) -> None:
    assert command_flags(engine, line.split()) == expected


@pytest.mark.parametrize(
    "flag", ["--api-key sk-1", "--api-key=sk-1", "--hf-token sk-1", "--ssl-keyfile-password sk-1"]
)
def test_secrets_are_masked_and_the_rest_is_kept(flag: str) -> None:
    shown = masked_command(["python", "-m", "sglang.launch_server", *flag.split(), "--tp", "2"])
    assert "sk-1" not in shown
    words = shlex.split(shown)
    assert words[:4] == ["python", "-m", "sglang.launch_server", words[3]]
    assert words[3].startswith(flag[:6])
    assert words[-2:] == ["--tp", "2"]


@given(
    st.lists(st.text(max_size=12), max_size=8), st.sampled_from(["sglang", "vllm", "reference", "pytorch"])
)
def test_no_command_line_is_an_error(words: list[str], engine: str) -> None:
    assert isinstance(command_flags(engine, words), dict)
    assert isinstance(masked_command(words), str)
