"""Set-ups whose cycles cannot be taken apart (yet), recognised from the server's flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolkit.live.server import NAMES, Server

_ALGORITHMS = {"EAGLE", "EAGLE3", "EAGLE2", "NEXTN", "STANDALONE"}
_VLLM_METHODS = {"eagle", "eagle3", "mtp", "draft_model"}
_NO_TOKENIZER = ("skip_tokenizer_init", "tokens_only")
Flags = Mapping[str, Any]


def refusal(server: Server, flags: Flags) -> str | None:
    """Return one sentence on why the server's cycles cannot be profiled, None where they can.

    `flags` are the command line's, completed by what the server says of itself.
    """
    if server.engine == "pytorch":
        return None
    for check in _CHECKS:
        why = check(server, flags)
        if why:
            return f"{NAMES[server.engine]} process {server.pid} {why}"
    return None


def speculation_note(server: Server, flags: Flags) -> str | None:
    """Return one sentence on how speculation of this kind is profiled, None for the usual kind."""
    algorithm = str(flags.get("speculative_algorithm") or "").upper()
    if server.engine == "sglang" and algorithm == "NEXTN":
        return "the target's own prediction layer drafts (NEXTN), timed like a draft head"
    if server.engine == "sglang" and algorithm == "STANDALONE":
        return "a standalone model drafts: its forwards are timed whole, like those of a draft head"
    if server.engine == "vllm" and method_of(flags).endswith("mtp"):
        return "the target's own prediction layers draft (MTP): timed like a draft head"
    return None


def takes_token_ids_alone(server: Server, flags: Flags) -> bool:
    """Return whether a server was started without a tokenizer, so that it understands no text."""
    return server.engine == "reference" or any(flags.get(name) for name in _NO_TOKENIZER)


def method_of(flags: Flags) -> str:
    """Return vLLM's speculation method in lower case, "" for none."""
    config = flags.get("speculative_config")
    if not isinstance(config, dict):
        return ""
    return str(config.get("method") or ("draft_model" if config.get("model") else "")).lower()


def _rocm(server: Server, flags: Flags) -> str | None:
    if "hip" not in server.libraries:
        return None
    return (
        "runs on ROCm, where timing events inside graphs and NVML are missing; "
        "profile it on an NVIDIA GPU or read its log with toolkit inspect"
    )


def _several_hosts(server: Server, flags: Flags) -> str | None:
    if _number(flags, "nnodes") < 2:
        return None
    return (
        f"spans {flags['nnodes']} hosts, and only the ranks of this one can be reached; "
        "profile a server on one host, or read its log with toolkit inspect"
    )


def _pipeline(server: Server, flags: Flags) -> str | None:
    stages = max(_number(flags, "pp_size"), _number(flags, "pipeline_parallel_size"))
    if stages < 2:
        return None
    return (
        f"runs {stages} pipeline stages, whose cycles overlap: phases cannot be told from the next cycle's; "
        "start it with one stage, or read its log with toolkit inspect"
    )


def _data_parallel(server: Server, flags: Flags) -> str | None:
    if flags.get("enable_dp_attention"):
        return (
            "runs data-parallel attention, where each rank has its own batch and idles beside the others: "
            "a run folder holds one batch, so start it without --enable-dp-attention"
        )
    replicas = max(_number(flags, "dp_size"), _number(flags, "data_parallel_size"))
    if replicas < 2:
        return None
    return (
        f"runs {replicas} data-parallel replicas, each with its own batch, while a run folder holds one; "
        "profile one replica started by itself"
    )


def _disaggregated(server: Server, flags: Flags) -> str | None:
    mode = flags.get("disaggregation_mode")
    if mode == "prefill":
        return "only prefills (disaggregated), so it has no decode cycle; give the decode server's process"
    return None


def _draft_kind(server: Server, flags: Flags) -> str | None:
    if server.engine == "sglang":
        algorithm = str(flags.get("speculative_algorithm") or "").upper()
        if flags.get("enable_multi_layer_eagle"):
            return (
                "drafts with one layer a step (multi-layer EAGLE) in a worker whose draft steps the probe "
                "does not know; only its log can be read, with toolkit inspect"
            )
        known = not algorithm or algorithm in (*_ALGORITHMS, "NONE")
    elif server.engine == "vllm":
        algorithm = method_of(flags)
        known = not algorithm or algorithm in _VLLM_METHODS or algorithm.endswith("_mtp")
    else:
        return None
    if known:
        return None
    return (
        f"drafts by {algorithm}, whose draft pass is no chain of forwards of a draft model; "
        "the cost model has no term for it, so only its log can be read, with toolkit inspect"
    )


def _number(flags: Flags, name: str) -> int:
    value = flags.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


_CHECKS: tuple[Callable[[Server, Flags], str | None], ...] = (
    _rocm,
    _several_hosts,
    _pipeline,
    _data_parallel,
    _disaggregated,
    _draft_kind,
)
