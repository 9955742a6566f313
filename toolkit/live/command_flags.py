"""The flags of a server's command line under the engine's own names for its settings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from toolkit.ingest.logs.flag_summary import masked

_ALIASES = {
    "sglang": {
        "tp": "tp_size",
        "tensor_parallel_size": "tp_size",
        "dp": "dp_size",
        "data_parallel_size": "dp_size",
        "pp": "pp_size",
        "pipeline_parallel_size": "pp_size",
        "ep": "ep_size",
        "expert_parallel_size": "ep_size",
        "model": "model_path",
        "speculative_draft_model": "speculative_draft_model_path",
    },
    "vllm": {
        "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size",
        "dp": "data_parallel_size",
        "sc": "speculative_config",
        "asc": "async_scheduling",
    },
    "reference": {},
}
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$")


def command_flags(engine: str, command: Sequence[str]) -> dict[str, Any]:
    """Return flag names (dashes as underscores, aliases resolved) with numbers and JSON as values.

    A flag without a value is True. vLLM's `--no-x` is x=False, `--a.b v` is {"a": {"b": v}}; the model
    that `vllm serve` takes without a flag is `model`.
    """
    aliases = _ALIASES.get(engine, {})
    found: dict[str, Any] = {}
    words = list(command)
    at = 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        at += 1
        flag = _FLAG.match(name)
        if not flag or (name.startswith("-") and not name.startswith("--") and flag[1] not in aliases):
            continue
        values = [value] if equals else []
        while not equals and at < len(words) and not _FLAG.match(words[at].partition("=")[0]):
            values.append(words[at])
            at += 1
        _put(found, flag[1].replace("-", "_"), values, aliases)
    if engine == "vllm" and "model" not in found:
        model = _served(words)
        found |= {"model": model} if model else {}
    return found


def _put(found: dict[str, Any], name: str, values: list[str], aliases: dict[str, str]) -> None:
    outer, dot, inner = name.partition(".")
    name = aliases.get(outer, outer)
    value: Any = (
        True if not values else _value(values[0]) if len(values) == 1 else [_value(v) for v in values]
    )
    if name.startswith("no_") and value is True:
        found[name[3:]] = False
    elif dot:
        known = found.get(name)
        found[name] = {**(known if isinstance(known, dict) else {}), inner: value}
    else:
        found[name] = value


def _value(text: str) -> Any:
    if _NUMBER.match(text):
        return json.loads(text) if not re.match(r"-?0\d", text) else text
    if text[:1] in "{[":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return {"true": True, "True": True, "false": False, "False": False, "None": None}.get(text, text)


def _served(words: Sequence[str]) -> str | None:
    """Return the word after `serve`, unless it is a flag."""
    if "serve" not in words:
        return None
    after = words[words.index("serve") + 1 :][:1]
    return after[0] if after and not after[0].startswith("-") else None


def masked_command(command: Sequence[str]) -> str:
    """Return a command line as a shell would take it, secrets replaced."""
    shown: list[str] = []
    name = ""
    for word in command:
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            name = flag.lstrip("-").replace("-", "_")
            shown.append(f"{flag}={masked(value, name)}" if equals else flag)
            name = "" if equals else name
        else:
            shown.append(str(masked(_value(word), name)) if masked("x", name) != "x" else str(masked(word)))
            name = ""
    return shlex.join(shown)
