"""Start-up lines: settings in, secrets out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.ingest.logs.server_args import read_server_args
from toolkit.ingest.logs.server_notes import ServerNotes

SGLANG = (
    "[2026-11-29 21:22:42] server_args=ServerArgs(model_path='models/target', "
    "model_loader_extra_config='{}', "
    "json_model_override_args='{\"a\": [1, 2]}', disable_overlap_schedule=False, "
    "tp_size=2, api_key='sk-abc', port=30000, "
    "allowed=['a', 'b)'], config=GraphConfig(decode=PhaseConfig(backend='full', sizes=[1, 2])), "
    "attention_backend='triton', decode_attention_backend=None, speculative_algorithm='EAGLE3', "
    "speculative_draft_model_path='models/draft', speculative_num_steps=3, speculative_eagle_topk=1, "
    "speculative_num_draft_tokens=4, speculative_adaptive=False, cuda_graph_max_bs_decode=8, odd='it\\'s, (')"
)
VLLM_ENGINE = (
    "(EngineCore_DP0 pid=774560) INFO 10-30 14:20:52 [core.py:93] "
    "Initializing a V1 LLM engine (v0.22.0) with config: "
    "model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=SpeculativeConfig(method='eagle3', "
    "model='draft/eagle3', num_spec_tokens=3), tokenizer='t', tokenizer_mode=auto, dtype=torch.bfloat16, "
    "tensor_parallel_size=2, compilation_config={'mode': <CompilationMode.NONE: 0>, 'sizes': [1, 2]}"
)
VLLM_ARGS = (
    "(APIServer pid=1) INFO 05-01 16:50:31 [utils.py:233] "
    "non-default args: {'model_tag': 'm', 'api_key': ['sk-abc'], "
    "'model': 'm', 'hf_token': 'hf_xyz', 'max_num_batched_tokens': 16384, 'tensor_parallel_size': 4, "
    "'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1}}"
)


def test_an_sglang_start_up_line_gives_the_settings() -> None:
    info = read_server_args(SGLANG)
    assert info is not None
    assert (info.engine, info.model, info.draft_model, info.tp_size) == (
        "sglang",
        "models/target",
        "models/draft",
        2,
    )
    assert (info.num_steps, info.topk, info.num_draft_tokens) == (3, 1, 4)
    assert (info.backend, info.overlap_schedule) == ("triton", True)
    assert info.flags is not None and "cuda_graph_max_bs_decode=8" in info.flags


def test_plain_decoding_is_no_step_and_one_token() -> None:
    info = read_server_args("server_args=ServerArgs(model_path='m', speculative_algorithm=None, tp_size=1)")
    assert info is not None and (info.num_steps, info.topk, info.num_draft_tokens) == (0, 1, 1)


def test_steps_that_adapt_are_not_known() -> None:
    info = read_server_args(SGLANG.replace("speculative_adaptive=False", "speculative_adaptive=True"))
    assert info is not None and info.num_steps is None


def test_a_chain_without_its_width_verifies_one_more_token_than_steps() -> None:
    line = "server_args=ServerArgs(speculative_algorithm='EAGLE', speculative_num_steps=5, "
    info = read_server_args(line + "speculative_eagle_topk=1, speculative_num_draft_tokens=None)")
    assert info is not None and info.num_draft_tokens == 6


def test_a_vllm_engine_line_counts_the_root() -> None:
    info = read_server_args(VLLM_ENGINE)
    assert info is not None
    assert (info.engine, info.engine_version, info.tp_size) == ("vllm", "0.22.0", 2)
    assert (info.num_steps, info.topk, info.num_draft_tokens, info.draft_model) == (3, 1, 4, "draft/eagle3")


def test_a_vllm_engine_without_speculation_decodes_plainly() -> None:
    line = (
        "Initializing an LLM engine (v0.6.6) with config: model='m', speculative_config=None, tokenizer='m', "
    )
    info = read_server_args(line)
    assert info is not None and (info.engine_version, info.num_steps, info.num_draft_tokens) == (
        "0.6.6",
        0,
        1,
    )


def test_vllm_arguments_and_engine_line_together_give_one_server() -> None:
    info = read_server_args(VLLM_ARGS.replace("4, 'spec", "2, 'spec") + "\n" + VLLM_ENGINE)
    assert info is not None
    assert (info.model, info.tp_size, info.num_steps) == ("meta-llama/Llama-3.1-8B-Instruct", 2, 3)


def test_no_secret_is_kept() -> None:
    for line in (SGLANG, VLLM_ARGS):
        info = read_server_args(line)
        assert info is not None and "sk-abc" not in repr(info) and "hf_xyz" not in repr(info)
    assert "max_num_batched_tokens=16384" in repr(read_server_args(VLLM_ARGS))


def test_other_text_says_nothing_of_a_server() -> None:
    assert read_server_args("Decode batch. #running-req: 1") is None


@pytest.mark.parametrize("line", [SGLANG, VLLM_ENGINE, VLLM_ARGS])
def test_a_cut_start_up_line_gives_only_what_was_complete(line: str) -> None:
    whole = read_server_args(line)
    for end in range(len(line)):
        cut = read_server_args(line[:end])
        for name in ("model", "draft_model", "tp_size", "num_steps", "topk", "num_draft_tokens", "backend"):
            assert getattr(cut, name, None) in (None, getattr(whole, name)), line[:end][-60:]


@given(st.text(alphabet="a='\"()[]{}<>,:\\ 1N", max_size=200))
def test_damaged_arguments_never_raise(text: str) -> None:
    for head in ("server_args=ServerArgs(", "non-default args: {", "LLM engine (v1) with config: "):
        info = read_server_args(head + text)
        assert info is None or info.engine in ("sglang", "vllm")


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("Successfully installed sglang==0.5.9 torch-2.9.1", "0.5.9"),
        ("sglang version: 0.5.10.post1", "0.5.10.post1"),
        ("image lmsysorg/sglang:v0.5.11-cu130", "0.5.11"),
        (
            "(APIServer pid=5385) INFO 11-03 05:51:44 [api_server.py:1839] vLLM API server version 0.11.0",
            "0.11.0",
        ),
        ("(APIServer pid=1) INFO 05-01 16:50:31 [utils.py:299]  ▄▄ ▄█ █  █ ▀▄▀ █  version 0.20.0", "0.20.0"),
    ],
)
def test_a_line_that_names_the_version_is_heard(line: str, version: str) -> None:
    notes = ServerNotes("log")
    notes.add(line, 1)
    server = notes.server()
    assert server is not None and server.engine_version == version


@pytest.mark.parametrize(
    "line", ["sglang is using nccl==2.28.9", 'assert_pkg_version("sglang-kernel", "0.4.4")']
)
def test_the_version_of_something_else_is_not_the_engine_s(line: str) -> None:
    notes = ServerNotes("log")
    notes.add(line, 1)
    assert notes.server() is None
