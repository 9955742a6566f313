"""What run.json says of a server comes from whoever knows best."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from toolkit.live.facts import all_flags, most_context, run_facts, vocabulary_size
from toolkit.live.server import Server

SGLANG = ("python", "-m", "sglang.launch_server")


def server(engine: Any = "sglang", command: tuple[str, ...] = SGLANG, **fields: Any) -> Server:
    known: dict[str, Any] = {"version": "0.5.15", "flags": {}, "environment": {}, "rank_pids": (1,), "uid": 0}
    return Server(pid=os.getpid(), engine=engine, command=command, **{**known, **fields})


def test_the_probe_is_believed_before_the_server_and_the_server_before_its_flags() -> None:
    one = server(flags={"tp_size": 1, "speculative_num_steps": 1, "speculative_eagle_topk": 1})
    told = {"tp_size": 2, "speculative_num_steps": 2, "speculative_algorithm": "EAGLE3", "version": "0.5.16"}
    probed = [{"engine_version": "0.5.17", "args": {"num_steps": 3, "num_draft_tokens": 4}}]
    plain = run_facts(one, all_flags(one, {}), {}, [])
    assert (plain.tp_size, plain.num_steps, plain.engine_version) == (1, 0, "0.5.15")
    info = run_facts(one, all_flags(one, told), told, [])
    assert (info.tp_size, info.num_steps, info.engine_version) == (2, 2, "0.5.16")
    info = run_facts(one, all_flags(one, told, probed), told, probed)
    assert (info.tp_size, info.num_steps, info.num_draft_tokens, info.engine_version) == (2, 3, 4, "0.5.17")


def test_acceptance_is_simulated_where_the_engine_is_told_to() -> None:
    flags = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3, "speculative_eagle_topk": 1}
    for variables, expected in (
        ({}, "real"),
        ({"SGLANG_SIMULATE_ACC_LEN": "2.2"}, "simulated"),
        ({"SGLANG_SIMULATE_ACC_LEN": "-1"}, "real"),
    ):
        one = server(environment=variables)
        assert run_facts(one, flags, {}, []).acceptance == expected
    config = {"num_speculative_tokens": 3, "method": "eagle3", "rejection_sample_method": "synthetic"}
    assert run_facts(server("vllm"), {"speculative_config": config}, {}, []).acceptance == "simulated"


def test_a_program_that_uses_an_engine_as_a_library_tells_nothing_by_its_flags() -> None:
    script = server("vllm", command=("python", "mine.py"))
    assert run_facts(script, all_flags(script, {}), {}, []).num_steps is None
    served = server("vllm", command=("vllm", "serve", "m"))
    assert run_facts(served, all_flags(served, {}), {}, []).num_steps == 0


def test_a_path_is_only_a_name_and_adaptive_steps_are_none() -> None:
    told = {"model_path": "/srv/x/Llama", "speculative_adaptive": True, "speculative_algorithm": "EAGLE3"}
    told |= {"speculative_num_steps": 3, "speculative_eagle_topk": 1}
    probed = [{"args": {"num_steps": 3, "adaptive": True, "model": "/srv/x/Llama"}}]
    info = run_facts(server(), all_flags(server(), told, probed), told, probed)
    assert (info.model, info.num_steps, info.num_draft_tokens) == ("Llama", None, None)


def test_the_models_config_tells_vocabulary_and_context(tmp_path: Path) -> None:
    config = {"vocab_size": 300, "text_config": {"max_position_embeddings": 77}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    flags = {"model_path": str(tmp_path)}
    assert vocabulary_size(server(), flags) == 300
    assert most_context(server(), flags) == 77
    assert most_context(server(), {**flags, "context_length": 50}) == 50
    assert vocabulary_size(server(), {"model_path": "org/absent"}) is None
