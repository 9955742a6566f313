"""The sizes in the config.json of a server's target, read where the server finds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit.live.proc import inner_path
from toolkit.live.server import Server

_MOST_BYTES = 1 << 20
_SIZES = {  # what run.json calls it, and what configs do
    "layers": ("num_hidden_layers",),
    "hidden": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads",),
    "vocabulary": ("vocab_size",),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok",),
}


def config_count(server: Server, flags: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of some sizes that the target's config.json has; None where it cannot be read."""
    return _first(_config(server, flags), names)


def model_shape(server: Server, flags: Mapping[str, Any]) -> dict[str, int]:
    """Return the target's sizes, {} where its config.json cannot be read."""
    config = _config(server, flags)
    found = {name: _first(config, keys) for name, keys in _SIZES.items()}
    return {name: count for name, count in found.items() if count is not None}


def _config(server: Server, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config, with what a model of several parts says of its text part on top."""
    model = flags.get("model_path") or flags.get("model") or flags.get("config")
    if not isinstance(model, str):
        return {}
    path = inner_path(server.pid, model)
    path = path if path.suffix == ".json" else path / "config.json"
    try:
        with path.open("rb") as file:
            config = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    config = config if isinstance(config, dict) else {}
    inner = config.get("text_config")
    return {**config, **(inner if isinstance(inner, dict) else {})}


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
