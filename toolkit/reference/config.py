"""Sizes of a model: from a config.json as Hugging Face writes it, or the built-in tiny ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.reference.errors import SettingError

_VOCAB_MULTIPLE = 64  # the vocabulary is padded to it, whatever the tensor-parallel size


def padded(vocab: int) -> int:
    """Return how many rows a matrix has that holds a vocabulary."""
    return -(-vocab // _VOCAB_MULTIPLE) * _VOCAB_MULTIPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes of a Llama-like decoder; the default is small enough for a CPU."""

    name: str = "tiny"
    hidden: int = 64
    intermediate: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    vocab: int = 256
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    eos: int = 2
    dtype: str = "float32"

    @property
    def padded_vocab(self) -> int:
        return padded(self.vocab)

    def require_split(self, size: int, what: str) -> None:
        """Raise SettingError unless `size` ranks can share this model."""
        for name, count in (
            ("heads", self.heads),
            ("intermediate size", self.intermediate),
            ("padded vocabulary", self.padded_vocab),
        ):
            if count % size:
                raise SettingError(f"{what} {size} does not divide the {count} {name} of {self.name}")
        if self.kv_heads % size and size % self.kv_heads:
            raise SettingError(f"{what} {size} and the {self.kv_heads} key-value heads do not divide")


_KEYS = {
    "hidden_size": "hidden",
    "intermediate_size": "intermediate",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab",
    "rms_norm_eps": "norm_eps",
    "rope_theta": "rope_theta",
}
_NUMBERS = {"norm_eps", "rope_theta"}  # the others are counts
_NEEDED = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def read_config(path: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """Return the sizes in a config.json (or in the folder that holds it), and all that it says."""
    file = path / "config.json" if path.is_dir() else path
    said = _said(file)
    sizes: dict[str, Any] = {"name": str(path)}
    for key, name in _KEYS.items():
        if said.get(key) is not None:
            sizes[name] = _size(file, key, said[key], name in _NUMBERS)
    missing = [key for key in _NEEDED if said.get(key) is None]
    if missing:
        raise SettingError(f"{file} says no {', no '.join(missing)}; give a model's config.json, or add it")
    sizes.setdefault("kv_heads", sizes["heads"])
    sizes.setdefault("head_dim", sizes["hidden"] // sizes["heads"])
    dtype = said.get("torch_dtype") or said.get("dtype")
    if isinstance(dtype, str):
        sizes["dtype"] = dtype.removeprefix("torch.")
    eos = said.get("eos_token_id")
    if isinstance(eos, list) and eos:
        eos = eos[0]
    if isinstance(eos, int):
        sizes["eos"] = eos
    return ModelConfig(**sizes), said


def _said(file: Path) -> dict[str, Any]:
    """Return what the file says; of a model that also sees or hears, what it says of its decoder."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise SettingError(
            f"{file} cannot be read ({why}); give a model's config.json or its folder"
        ) from None
    if not isinstance(said, dict):
        raise SettingError(f"{file} holds no JSON object; give a model's config.json")
    inner = said.get("text_config")
    return {**said, **inner} if isinstance(inner, dict) else said


def _size(file: Path, key: str, value: Any, may_be_real: bool) -> int | float:
    good = isinstance(value, int | float if may_be_real else int) and not isinstance(value, bool)
    if not good or value <= 0:
        raise SettingError(f"{file}: {key} is {value!r}, which is no size; correct that key")
    return float(value) if may_be_real else int(value)
