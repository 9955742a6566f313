"""What the start-up lines of a log say of its server, and whether they are of one server."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from toolkit.errors import BadInputError
from toolkit.ingest.logs.server_args import StartLine, overlaid, read_start_line
from toolkit.schema.run import RunInfo

_COMPARED = (
    *(
        "model",
        "draft_model",
        "tp_size",
        "num_steps",
        "topk",
        "num_draft_tokens",
        "overlap_schedule",
        "backend",
    ),
)
_COMPARED_ARGUMENTS = (
    *(
        "port",
        "dp_size",
        "pp_size",
        "ep_size",
        "quantization",
        "kv_cache_dtype",
        "disable_cuda_graph",
        "dtype",
    ),
    *("page_size", "max_running_requests", "cuda_graph_max_bs", "cuda_graph_max_bs_decode", "enforce_eager"),
    *("pipeline_parallel_size", "data_parallel_size", "disable_custom_all_reduce", "enable_dp_attention"),
)
_LISTENS = re.compile(
    r"(?:Uvicorn running on|Starting vLLM API server(?: [0-9]{1,4})? on) https?://[^\s:/]{0,80}:([0-9]{1,5})"
)
_RELEASE = r"([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(?:\.?(?:post|rc|dev|a|b)[0-9]{1,6}){0,2}(?:\+[\w.]{1,40})?)"
_SGLANG_VERSION = re.compile(
    r"(?i)(?<![\w-])sglang(?:\[\w{1,20}\])?(?:_version)?"
    r"(?: ?(?:==|[:=]v?)|[ :=]{1,2}version[ :=]{0,3}v?| v) ?['\"]?v?" + _RELEASE
)
_VLLM_VERSION = re.compile(
    r"vLLM API server version v?" + _RELEASE + r"|\[utils\.py:[0-9]{1,5}\].{0,60}\bversion " + _RELEASE
)
_VLLM_BACKEND = re.compile(r"Using ([A-Z][A-Z0-9_]{3,40}) (?:attention )?backend\b")
_VLLM_SCHEDULING = re.compile(r"Asynchronous scheduling is (enabled|disabled)")


class ServerNotes:
    """Collects what `other` lines say of the server; refuses a second server with other settings."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._first: dict[str, tuple[int, dict[str, Any]]] = {}
        self._info = RunInfo()

    def add(self, line: str, number: int) -> None:
        """Take in one line; BadInputError names both lines when it is of another server."""
        start = read_start_line(line)
        if start:
            self._compare(start.form, number, _identity(start))
            self._info = overlaid(self._info, start.info)
        elif listens := _LISTENS.search(line):
            self._compare("address", number, {"port": int(listens[1])})
        else:
            self._add_remark(line)

    def _add_remark(self, line: str) -> None:
        if found := _SGLANG_VERSION.search(line):
            self._fill("sglang", engine_version=found[1])
        elif found := _VLLM_VERSION.search(line):
            self._fill("vllm", engine_version=found[1] or found[2])
        elif found := _VLLM_BACKEND.search(line):
            self._fill("vllm", backend=found[1])
        elif found := _VLLM_SCHEDULING.search(line):
            self._fill("vllm", overlap_schedule=found[1] == "enabled")

    def _fill(self, engine: str, **known: Any) -> None:
        """Note facts that no start-up line has given yet."""
        if self._info.engine in (None, engine):
            unknown = {name: value for name, value in known.items() if getattr(self._info, name) is None}
            self._info = dataclasses.replace(self._info, engine=engine, **unknown)

    def _compare(self, form: str, number: int, identity: dict[str, Any]) -> None:
        before, known = self._first.setdefault(form, (number, identity))
        for name, value in identity.items():
            if name in known and known[name] != value:
                raise BadInputError(
                    f"{self._source} holds the start-up lines of two servers: line {before} has "
                    f"{name}={known[name]}, line {number} has {name}={value}; split it into a file for each"
                )
            known.setdefault(name, value)

    def server(self) -> RunInfo | None:
        """Return what is known of the server; None when no line said anything."""
        return None if self._info == RunInfo() else self._info


def _identity(start: StartLine) -> dict[str, Any]:
    """Return the settings that make two start-up lines those of two servers; unknown ones left out."""
    found = {name: getattr(start.info, name) for name in _COMPARED}
    found.update((name, start.arguments.get(name)) for name in _COMPARED_ARGUMENTS)
    return {name: value for name, value in found.items() if value is not None}
