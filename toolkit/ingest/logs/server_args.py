"""How a server was started, from the line in which it prints its own arguments."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any

from toolkit.ingest.logs.flag_summary import flag_summary
from toolkit.ingest.logs.repr_text import call_arguments, dict_items
from toolkit.schema.run import RunInfo

_SGLANG = re.compile(r"server_args ?= ?ServerArgs\(")
_VLLM_ARGS = re.compile(r"non-default args: ?\{")
_VLLM_NAMESPACE = re.compile(r"\bargs: ?Namespace\(")
_VLLM_ENGINE = re.compile(r"LLM engine \(v?([^()\s]{1,80})\) with config: ?")
_CHAIN_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")  # D = K + 1 at topk 1


@dataclass(frozen=True, slots=True)
class StartLine:
    """One start-up line: what it is (only lines of one form compare), its settings, its raw arguments."""

    form: str
    info: RunInfo
    arguments: dict[str, Any]


def read_server_args(text: str) -> RunInfo | None:
    """Return the settings in a server's start-up lines; None when the text holds none.

    SGLang's `server_args=ServerArgs(...)`, vLLM's `non-default args: {...}` and its engine's `config:`
    line are read; of a cut line, what was complete. Where several lines speak, the later one wins.
    """
    info: RunInfo | None = None
    for line in text.split("\n"):
        found = read_start_line(line)
        if found:
            info = found.info if info is None else overlaid(info, found.info)
    return info


def overlaid(below: RunInfo, above: RunInfo) -> RunInfo:
    """Return `below` with every field that `above` knows put in its place."""
    empty = RunInfo()
    known = {
        field.name: getattr(above, field.name)
        for field in dataclasses.fields(RunInfo)
        if getattr(above, field.name) != getattr(empty, field.name)
    }
    return dataclasses.replace(below, **known)


def read_start_line(line: str) -> StartLine | None:
    """Return what one start-up line says; None for any other line."""
    if found := _SGLANG.search(line):
        arguments = call_arguments(line, found.end())
        return StartLine("sglang", _sglang_info(arguments), arguments) if arguments else None
    if found := _VLLM_ENGINE.search(line):
        arguments = call_arguments(line, found.end())
        info = dataclasses.replace(_vllm_info(arguments), engine_version=found[1])
        return StartLine("vllm engine", info, arguments)
    if found := _VLLM_ARGS.search(line) or _VLLM_NAMESPACE.search(line):
        is_dict = found[0].endswith("{")
        arguments = (dict_items if is_dict else call_arguments)(line, found.end())
        return StartLine("vllm arguments", _vllm_info(arguments), arguments) if arguments else None
    return None


def _sglang_info(arguments: dict[str, Any]) -> RunInfo:
    steps, topk = _int(arguments, "speculative_num_steps"), _int(arguments, "speculative_eagle_topk")
    width = _int(arguments, "speculative_num_draft_tokens")
    if "speculative_algorithm" in arguments and arguments["speculative_algorithm"] is None:
        steps, topk, width = 0, 1, 1
    elif arguments.get("speculative_algorithm") and steps == 0:
        steps = topk = None  # NGRAM looks drafts up: no draft model runs, yet it is no plain decoding
    elif arguments.get("speculative_adaptive") is True:
        steps = width = None  # they change while the server runs
    elif topk == 1 and arguments.get("speculative_algorithm") in _CHAIN_ALGORITHMS:
        width = steps + 1 if width is None and steps is not None else width
        steps = width - 1 if steps is None and width is not None else steps
    disabled = arguments.get("disable_overlap_schedule")
    return RunInfo(
        engine="sglang",
        model=_text(arguments, "model_path"),
        draft_model=_text(arguments, "speculative_draft_model_path"),
        tp_size=_int(arguments, "tp_size"),
        num_steps=steps,
        topk=topk,
        num_draft_tokens=width,
        overlap_schedule=None if not isinstance(disabled, bool) else not disabled,
        backend=_text(arguments, "decode_attention_backend") or _text(arguments, "attention_backend"),
        graph_sizes=_sizes(arguments.get("cuda_graph_bs_decode") or arguments.get("cuda_graph_bs")),
        largest_graph=_int(arguments, "cuda_graph_max_bs_decode") or _int(arguments, "cuda_graph_max_bs"),
        flags=flag_summary(arguments, all_of_them=False) or None,
    )


def _vllm_info(arguments: dict[str, Any]) -> RunInfo:
    steps, topk, width, draft = _vllm_speculation(arguments)
    scheduling = arguments.get("async_scheduling")
    only_what_was_set = "tokenizer_mode" not in arguments  # the engine's line lists every default too
    return RunInfo(
        engine="vllm",
        model=_text(arguments, "model") or _text(arguments, "model_tag"),
        draft_model=draft,
        tp_size=_int(arguments, "tensor_parallel_size"),
        num_steps=steps,
        topk=topk,
        num_draft_tokens=width,
        overlap_schedule=scheduling if isinstance(scheduling, bool) else None,
        backend=_text(arguments, "attention_backend"),
        graph_sizes=_sizes(_dict(arguments, "compilation_config").get("cudagraph_capture_sizes")),
        flags=flag_summary(arguments, all_of_them=only_what_was_set) or None,
    )


def _vllm_speculation(arguments: dict[str, Any]) -> tuple[int | None, int | None, int | None, str | None]:
    """Return num_steps, topk, num_draft_tokens (root included) and draft model; vLLM proposes chains."""
    if "speculative_config" not in arguments:
        return None, None, None, None
    config = arguments["speculative_config"]
    if config is None:
        return 0, 1, 1, None
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            config = None
    if not isinstance(config, dict):
        return None, None, None, None
    draft = _text(config, "model") or _text(config, "draft_model")
    steps = _int(config, "num_spec_tokens")
    steps = _int(config, "num_speculative_tokens") if steps is None else steps
    topk = 1 if config.get("speculative_token_tree") is None else None
    if steps is None or config.get("num_speculative_tokens_per_batch_size"):
        return None, topk, None, draft
    return steps, topk, steps + 1 if topk == 1 else None, draft


def _int(arguments: dict[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return sizes of graphs; None where the list holds anything else."""
    sizes = value if isinstance(value, list) else []
    whole = bool(sizes) and all(type(size) is int and size > 0 for size in sizes)
    return tuple(sorted(set(sizes))) if whole else None


def _dict(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    value = arguments.get(name)
    return value if isinstance(value, dict) else {}


def _text(arguments: dict[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) and value else None


def settings_of(engine: str, arguments: dict[str, Any]) -> RunInfo:
    """Return the settings in a server's arguments, by the engine's own names for them."""
    return _vllm_info(arguments) if engine == "vllm" else _sglang_info(arguments)
