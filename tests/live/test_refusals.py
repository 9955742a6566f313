"""Set-ups that cannot be taken apart are recognised from flags; those that can are not refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import CaptureError, UsageError
from toolkit.live.capture import Captured
from toolkit.live.driving import Driver
from toolkit.live.http import HttpError
from toolkit.live.loads import TextPrompts
from toolkit.live.plan import restart_line, ways
from toolkit.live.profiling import profiled_run, require_tokenizer
from toolkit.live.recording import Recorded
from toolkit.live.refusals import refusal, speculation_note
from toolkit.live.server import Server
from toolkit.schema.client import RequestCount
from toolkit.schema.profile import Load
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle


def server(engine: Any = "sglang", **fields: Any) -> Server:
    known = {
        "version": "0.5.15",
        "command": ("python",),
        "flags": {},
        "environment": {},
        "rank_pids": (2,),
        "uid": 0,
    }
    return Server(pid=1, engine=engine, **{**known, **fields})


@pytest.mark.parametrize(
    ("engine", "flags", "said"),
    [
        ("sglang", {"enable_dp_attention": True, "dp_size": 8}, "data-parallel attention"),
        ("sglang", {"dp_size": 2}, "2 data-parallel replicas"),
        ("sglang", {"pp_size": 2}, "2 pipeline stages"),
        ("sglang", {"nnodes": 2}, "2 hosts"),
        ("sglang", {"disaggregation_mode": "prefill"}, "no decode cycle"),
        ("sglang", {"enable_multi_layer_eagle": True, "speculative_algorithm": "EAGLE"}, "multi-layer EAGLE"),
        ("sglang", {"speculative_algorithm": "DFLASH"}, "DFLASH"),
        ("sglang", {"speculative_algorithm": "NGRAM"}, "NGRAM"),
        ("vllm", {"speculative_config": {"method": "ngram"}}, "ngram"),
        ("vllm", {"pipeline_parallel_size": 2}, "pipeline"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(engine: str, flags: dict[str, Any], said: str) -> None:
    why = refusal(server(engine), flags)
    assert why is not None
    assert said in why
    assert "\n" not in why
    assert not why.endswith(".")


@pytest.mark.parametrize(
    ("engine", "flags", "note"),
    [
        ("sglang", {}, None),
        ("sglang", {"speculative_algorithm": "EAGLE3", "dp_size": 1, "nnodes": 1}, None),
        ("sglang", {"speculative_algorithm": "NEXTN"}, "NEXTN"),
        ("sglang", {"speculative_algorithm": "STANDALONE"}, "standalone"),
        ("sglang", {"disaggregation_mode": "decode"}, None),
        ("vllm", {"speculative_config": {"method": "deepseek_mtp"}}, "MTP"),
        ("vllm", {"speculative_config": {"method": "eagle3"}}, None),
    ],
)
def test_what_can_be_profiled_is_not_refused(engine: str, flags: dict[str, Any], note: str | None) -> None:
    assert refusal(server(engine), flags) is None
    said = speculation_note(server(engine), flags)
    assert (note or "") in (said or "")
    assert bool(said) == bool(note)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("off", "switched off at the start (TOOLKIT_PROBE=off)"),
        (" OFF", "switched off at the start (TOOLKIT_PROBE=off)"),
        ("fast", "TOOLKIT_PROBE=fast is none of off, stages and steps"),
        ("steps", "started without it"),
    ],
)
def test_a_probe_that_was_switched_off_is_said_to_be_so_also_off_the_path(mode: str, said: str) -> None:
    started = server(environment={"PYTHONPATH": "/elsewhere", "TOOLKIT_PROBE": mode})
    way = ways(started, None, {}, {}, [])[0]
    assert (way.name, way.usable) == ("probe", False)
    assert said in way.why
    assert ("TOOLKIT_PROBE= " in (way.needs or "")) == (mode != "steps")


def test_texts_for_a_server_of_token_ids_are_refused_in_one_sentence_before_any_is_sent() -> None:
    texts, tokens = Load(), Load(prompt_tokens=8)
    for target in (
        SimpleNamespace(server=server("reference"), flags={}),
        SimpleNamespace(server=server(), flags={"skip_tokenizer_init": True}),
    ):
        require_tokenizer(target, [tokens])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="has no tokenizer and takes token ids alone"):
            require_tokenizer(target, [texts])  # type: ignore[arg-type]
    require_tokenizer(SimpleNamespace(server=server(), flags={}), [texts])  # type: ignore[arg-type]


def test_a_server_that_refuses_texts_is_not_quoted_with_its_status() -> None:
    class Refusing:
        def generate(self, prompts: object, output_tokens: int, temperature: float) -> list[RequestCount]:
            raise HttpError("/generate", 400, "skip_tokenizer_init=True cannot accept text prompts")

    with pytest.raises(CaptureError) as caught:
        Driver(Refusing(), TextPrompts(["a"]), Load()).once()
    assert "takes token ids alone" in str(caught.value)
    assert "400" not in str(caught.value)


def test_ranks_without_a_cycle_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.live.profiling.run_info", lambda target, found, how: RunInfo())
    some = RankSpans(source="s", tp_rank=0, clock="host", dropped=0, cycles=(SpanCycle(cycle=1, t_ns=1),))
    empty = RankSpans(source="s", tp_rank=1, clock="host", dropped=0, cycles=())
    found = Captured(None, recorded=Recorded((some, empty), ()))
    target: Any = None
    assert profiled_run(Path("run"), target, found).ranks == 1


def test_rocm_is_refused() -> None:
    assert "ROCm" in (refusal(server(libraries=frozenset({"torch", "hip"})), {}) or "")


def test_the_restart_line_keeps_the_pythonpath_and_masks_secrets() -> None:
    started = server(
        command=("python", "-m", "sglang.launch_server", "--api-key", "sk-1"),
        environment={"PYTHONPATH": "/a:/b"},
    )
    line = restart_line(started)
    assert line.startswith("PYTHONPATH=")
    assert "probe/site:/a:/b python -m sglang.launch_server" in line
    assert "sk-1" not in line
    assert "TOOLKIT_PROBE_STARTUP" not in line
    assert "TOOLKIT_PROBE_STARTUP=1" in restart_line(server(version="0.5.10.post1", command=("python",)))
