"""Which engine a process belongs to, and which of its processes run the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from toolkit.live.proc import Process, mapped_files
from toolkit.live.server import Engine

_TITLES: tuple[tuple[str, Engine], ...] = (("sglang::", "sglang"), ("VLLM::", "vllm"), ("vllm::", "vllm"))
_RANK_TITLE = re.compile(r"sglang::scheduler|(?i:vllm)::Worker")
_CORE_TITLE = re.compile(r"(?i:vllm)::EngineCore")  # runs the model itself where TP is 1
_RANK_NUMBER = re.compile(r"TP_?(\d+)")
_SPAWNED = re.compile(r"multiprocessing\.(?:spawn|forkserver) import")
_PROGRAMS: dict[str, Engine] = {"sglang": "sglang", "vllm": "vllm"}


def engine_by_command(one: Process) -> Engine | None:
    """Return the engine that a process's own command line or title names, None for any other program."""
    if not one.command:
        return None
    for prefix, engine in _TITLES:
        if one.command[0].startswith(prefix):
            return engine
    words = one.command
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        after = words[at + 1] if at + 1 < len(words) else ""
        name = PurePath(word).name
        if before == "-m":
            return _engine_of_module(word)
        if before == "-c":
            return None
        if name in _PROGRAMS and after == "serve":
            return _PROGRAMS[name]
        if name == "launch_server.py" and "sglang" in word:
            return "sglang"
        if name == "api_server.py" and "vllm" in word:
            return "vllm"
    return None


def _engine_of_module(module: str) -> Engine | None:
    if module == "toolkit.reference" or module.startswith("toolkit.reference."):
        return "reference"
    top = module.split(".")[0]
    return _PROGRAMS.get(top)


def engine_by_libraries(pid: int) -> Engine | None:
    """Return the engine whose compiled parts a process has mapped; "pytorch" for torch alone."""
    files = mapped_files(pid)
    if any("/sgl_kernel/" in path or "/sglang/" in path for path in files):
        return "sglang"
    if any("/site-packages/vllm/" in path or "/dist-packages/vllm/" in path for path in files):
        return "vllm"
    return "pytorch" if any("libtorch" in path for path in files) else None


def gpu_libraries(pids: Sequence[int]) -> frozenset[str]:
    """Return which of torch, cuda and hip are mapped into any of the processes."""
    marks = {"libtorch": "torch", "libcuda.so": "cuda", "libamdhip64": "hip"}
    return frozenset(
        name for pid in pids for path in mapped_files(pid) for mark, name in marks.items() if mark in path
    )


def rank_processes(root: Process, below: Sequence[Process], probed: set[int]) -> tuple[int, ...]:
    """Return the processes that run the model: those with a probe, else by title, else spawned workers.

    `probed` are processes that have opened a socket. Titles put them in order of rank.
    """
    family = [root, *below]
    titled = [one for one in family if one.command and _RANK_TITLE.match(one.command[0])]
    cores = [one for one in family if one.command and _CORE_TITLE.match(one.command[0])]
    spawned = [one for one in below if any(_SPAWNED.search(word) for word in one.command)]
    numbered = [one for one in below if "--tp-rank" in one.command]
    with_probe = [one for one in family if one.pid in probed]
    for chosen in (with_probe, titled, cores, numbered, spawned):
        if chosen:
            return tuple(one.pid for one in sorted(chosen, key=_rank_of))
    return (root.pid,)


def _rank_of(one: Process) -> tuple[int, int]:
    found = _RANK_NUMBER.search(one.command[0]) if one.command else None
    if not found and "--tp-rank" in one.command[:-1]:
        found = re.match(r"(\d+)$", one.command[one.command.index("--tp-rank") + 1])
    return (int(found[1]) if found else 0, one.pid)
