"""What is known of a server from its command line, its log, its HTTP endpoint and its probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from toolkit.ingest.logs.flag_summary import flag_summary
from toolkit.ingest.logs.server_args import overlaid, settings_of
from toolkit.live.http import HttpError, ServerHttp
from toolkit.live.log_window import settings_in_log
from toolkit.live.model_config import config_count
from toolkit.live.server import Server
from toolkit.schema.run import AcceptanceKind, RunInfo

_PROBED_FLAGS = {  # the probe's names for arguments of SGLang
    "dp_size": "dp_size",
    "pp_size": "pp_size",
    "algorithm": "speculative_algorithm",
    "multi_layer_eagle": "enable_multi_layer_eagle",
    "enable_dp_attention": "enable_dp_attention",
    "adaptive": "speculative_adaptive",
}
_SIMULATED = {"sglang": "SGLANG_SIMULATE_ACC_LEN"}


def server_info(http: ServerHttp | None) -> dict[str, Any]:
    """Return the arguments that the server tells of itself, {} where it does not."""
    for path in ("/server_info", "/get_server_info") if http else ():
        try:
            found = http.json(path, timeout_s=10) if http else {}
        except HttpError as error:
            if error.status is None:
                return {}
            continue
        if isinstance(found, dict):
            return found
    return {}


def all_flags(
    server: Server, info: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the server's arguments: its own word first, then its command line, then its probes'.

    SGLang without a speculative algorithm on its command line, nor a file of settings, decodes plainly.
    """
    probed = dict(statuses[0].get("args") or {}) if statuses else {}
    known = {_PROBED_FLAGS[name]: value for name, value in probed.items() if name in _PROBED_FLAGS}
    flags = {**(known if server.engine == "sglang" else {}), **server.flags}
    told_all = "config" not in flags and _is_server_command(server.command)
    if server.engine == "sglang" and not info and not probed and told_all:
        flags.setdefault("speculative_algorithm", None)
    if server.engine == "vllm" and told_all:
        flags.setdefault("speculative_config", None)
    if server.engine == "vllm":
        return flags
    nested = info.get("args")
    told = {**info, **(nested if isinstance(nested, dict) else {})}
    return flags | {name: value for name, value in told.items() if name != "internal_states"}


def _is_server_command(command: Sequence[str]) -> bool:
    """Say whether a command line holds the engine's flags: a program that uses it as a library does not."""
    return any(word == "serve" or "launch_server" in word or "api_server" in word for word in command)


def run_facts(
    server: Server, flags: Mapping[str, Any], info: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]
) -> RunInfo:
    """Return the facts of the server for run.json; what nobody says is None.

    The probe's word counts most, then the server's, its log's, its command line's.
    """
    if server.engine == "pytorch":
        return RunInfo()
    found = _reference(flags) if server.engine == "reference" else settings_of(server.engine, dict(flags))
    logged = settings_in_log(server.log) if server.log and server.engine != "reference" else None
    if logged and logged.engine in (None, server.engine):
        found = overlaid(found, logged) if server.engine == "vllm" or not info else overlaid(logged, found)
    found = overlaid(found, _probed(statuses))
    version = _text(info, "version") or _text(info, "engine_version")
    return replace(
        found,
        engine=server.engine,
        engine_version=_probe_version(statuses) or version or found.engine_version or server.version,
        model=_model_name(found.model),
        draft_model=_model_name(found.draft_model),
        draft_tp=_draft_tp(server, found, flags),
        acceptance=_acceptance(server, found, flags),
        with_stack=None,
        flags=found.flags or flag_summary(dict(server.flags), all_of_them=False) or None,
    )


def _reference(flags: Mapping[str, Any]) -> RunInfo:
    """Return the facts of a reference engine from its command line and its own word."""
    steps = 0 if flags.get("plain") is True else _count(flags, "num_steps", "steps") or 0
    on_cpu = (_text(flags, "device") or "cpu") == "cpu"
    shown = {name: value for name, value in flags.items() if isinstance(value, str | int | float)}
    return RunInfo(
        model=_text(flags, "model_path") or _text(flags, "config") or "reference",
        draft_model=_text(flags, "speculative_draft_model_path") if steps else None,
        gpu="CPU" if on_cpu else _text(flags, "device_name"),
        tp_size=_count(flags, "tp_size", "tp") or 1,
        draft_tp=_count(flags, "draft_tp_size", "draft_tp") if steps else None,
        num_steps=steps,
        topk=1,
        num_draft_tokens=steps + 1,
        overlap_schedule=False,
        flags=flag_summary(shown, all_of_them=True),
    )


def _probed(statuses: Sequence[Mapping[str, Any]]) -> RunInfo:
    """Return what the probes say of settings, by their own names."""
    arguments = dict(statuses[0].get("args") or {}) if statuses else {}
    if not arguments:
        return RunInfo()
    steps = _count(arguments, "num_steps")
    width = _count(arguments, "num_draft_tokens")
    overlap = arguments.get("overlap_schedule")
    return RunInfo(
        model=_text(arguments, "model"),
        draft_model=_text(arguments, "draft_model"),
        tp_size=_count(arguments, "tp_size") or None,
        num_steps=None if arguments.get("adaptive") else steps,
        topk=_count(arguments, "topk") or None,
        num_draft_tokens=None if arguments.get("adaptive") else width or (1 if steps == 0 else None),
        overlap_schedule=overlap if isinstance(overlap, bool) else None,
        backend=_text(arguments, "attention_backend"),
    )


def _probe_version(statuses: Sequence[Mapping[str, Any]]) -> str | None:
    return _text(statuses[0], "engine_version") if statuses else None


def _draft_tp(server: Server, found: RunInfo, flags: Mapping[str, Any]) -> int | None:
    """Return the draft's TP size: of both engines the target's, whatever was asked for (EAGLE and MTP)."""
    if server.engine == "reference":
        return None if found.num_steps == 0 else found.draft_tp or found.tp_size
    speculative = found.num_steps is None or found.num_steps > 0
    return found.tp_size if speculative and found.draft_model is not None else None


def _acceptance(server: Server, found: RunInfo, flags: Mapping[str, Any]) -> AcceptanceKind | None:
    """Return whether drafts are kept by comparison or by a drawn number; None for plain decoding."""
    if found.num_steps == 0:
        return None
    config = flags.get("speculative_config")
    drawn = [
        isinstance(config, dict) and config.get("rejection_sample_method") == "synthetic",
        _above_zero(server.environment.get(_SIMULATED.get(server.engine, ""))),
        server.engine == "reference" and flags.get("accept_by_position"),
        server.engine == "reference" and flags.get("acceptance") == "simulated",
    ]
    return "simulated" if any(drawn) else "real"


def _above_zero(text: str | None) -> bool:
    """Say whether a variable holds a number above 0: SGLang takes others as 'off'."""
    try:
        return text is not None and float(text) > 0
    except ValueError:
        return False


def random_weights(server: Server, flags: Mapping[str, Any]) -> bool:
    """Say whether the server runs a model that was never trained."""
    return server.engine == "reference" or flags.get("load_format") == "dummy"


def vocabulary_size(server: Server, flags: Mapping[str, Any]) -> int | None:
    """Return the target's vocabulary: from the server's word or its model's config.json."""
    for value in (flags.get("vocab_size"), flags.get("vocab")):
        if isinstance(value, int) and value > 1:
            return value
    return config_count(server, flags, "vocab_size")


def most_requests(flags: Mapping[str, Any]) -> int | None:
    """Return how many requests the server runs at once, None where nobody says."""
    return _count(flags, "max_running_requests", "max_num_seqs", "max_batch") or None


def most_context(server: Server, flags: Mapping[str, Any]) -> int | None:
    """Return the longest context that the server takes, None where nobody says."""
    names = ("context_length", "max_model_len", "context")
    return _count(flags, *names) or config_count(server, flags, "max_position_embeddings")


def _model_name(model: str | None) -> str | None:
    """Return the last part of a path, so that no run tells where somebody's files lie."""
    if model is None or not model.startswith(("/", ".", "~")):
        return model
    path = PurePath(model)
    return path.parent.name if path.name == "config.json" else path.name


def _count(found: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = found.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    return value if isinstance(value, str) and value else None
