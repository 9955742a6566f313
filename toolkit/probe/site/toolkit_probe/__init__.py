"""The toolkit's probe, loaded by the engine's plugin entry points. Standard library and torch only.

Nothing here raises into the engine, and TOOLKIT_PROBE=off imports nothing more than this file. Unset, it is
steps, except that nothing is added to the engine's graphs: inside them, times are taken only in copies.
"""

from __future__ import annotations

import os
import sys

_loaded: set[str] = set()


def load_sglang() -> None:
    """Entry point `sglang.srt.plugins`: hook the scheduler process of a rank, and no other."""
    _load("sglang")


def load_vllm() -> None:
    """Entry point `vllm.general_plugins`: hook a worker; the API process never makes one."""
    _load("vllm")


def load_reference() -> None:
    """Entry point `toolkit.reference.plugins`."""
    _load("reference")


def load_at_startup() -> None:
    """Hook an engine without plugins, from sitecustomize: SGLang before 0.5.11."""
    _load("sglang", startup=True)


def _load(engine: str, startup: bool = False) -> None:
    asked = os.environ.get("TOOLKIT_PROBE", "").strip().lower()
    mode = asked or "steps"
    if mode == "off":
        return
    try:
        if engine in _loaded:
            return
        if mode not in ("stages", "steps"):
            raise ValueError(f"TOOLKIT_PROBE={mode} is none of off, stages, steps; nothing is hooked")
        from .loading import load

        if load(engine, mode, startup, add_nodes=asked == "steps"):
            _loaded.add(engine)
    except Exception as error:
        sys.stderr.write(f"toolkit probe: not loaded: {error}\n")
