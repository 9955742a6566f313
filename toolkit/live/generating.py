"""Sending one batch of prompts to a server and counting what came back, by engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol

from toolkit.live.http import HttpError, ServerHttp
from toolkit.schema.client import RequestCount

Prompt = list[int] | str
_REQUEST_S = 900.0
_METRIC = re.compile(r"^vllm:spec_decode_num_(\w+?)(?:_total)?(?:\{([^}]*)\})? ([-+.\deE]+)$", re.MULTILINE)
_POSITION = re.compile(r'position="(\d+)"')


class Generator(Protocol):
    """Sends prompts all at once and waits for all of them."""

    def generate(
        self, prompts: Sequence[Prompt], output_tokens: int, temperature: float
    ) -> list[RequestCount]:
        """Return the counters of the requests; HttpError if the server refuses."""


class SglangGenerator:
    """POST /generate, which takes a batch in one request (SGLang, the reference engine)."""

    def __init__(self, http: ServerHttp) -> None:
        self._http = http

    def generate(
        self, prompts: Sequence[Prompt], output_tokens: int, temperature: float
    ) -> list[RequestCount]:
        """Return one entry a prompt."""
        name = "text" if isinstance(prompts[0], str) else "input_ids"
        sampling = {"max_new_tokens": output_tokens, "temperature": temperature, "ignore_eos": True}
        body = {name: prompts[0] if len(prompts) == 1 else list(prompts), "sampling_params": sampling}
        answer = self._http.json("/generate", body, _REQUEST_S)
        metas = [one.get("meta_info") or {} for one in (answer if isinstance(answer, list) else [answer])]
        if len(metas) != len(prompts):
            raise HttpError("/generate", None, f"{len(metas)} answers to {len(prompts)} prompts")
        return [request_count(meta) for meta in metas]


def request_count(meta: dict[str, Any]) -> RequestCount:
    """Return the counters in a request's meta_info; the names changed after SGLang 0.5.9."""
    cycles = _whole(meta, "spec_verify_ct")
    histogram = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram") or ()
    correct = _whole(meta, "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    proposed = _whole(meta, "spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    if correct is None and histogram:
        correct = sum(kept * count for kept, count in enumerate(histogram))
    possible = correct is None or proposed is None or correct <= proposed
    return RequestCount(
        output_tokens=_whole(meta, "completion_tokens"),
        verify_cycles=cycles or None,
        num_correct_drafts=correct if cycles and possible else None,
        num_proposed_drafts=proposed if cycles and possible else None,
        correct_drafts_histogram=tuple(histogram) if cycles else (),
    )


def _whole(meta: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = meta.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
    return None


class VllmGenerator:
    """POST /v1/completions, or the tokens-only route of a server without a tokenizer.

    vLLM counts acceptance for the server, not for a request: what its counters grew by while the prompts
    ran is one entry for all of them.
    """

    def __init__(self, http: ServerHttp) -> None:
        self._http = http
        self._model: str | None = None
        self._tokens_only = False

    def generate(
        self, prompts: Sequence[Prompt], output_tokens: int, temperature: float
    ) -> list[RequestCount]:
        """Return one entry for all prompts."""
        if self._model is None:
            self._model = str(self._http.json("/v1/models")["data"][0]["id"])
        before = spec_counters(self._metrics())
        tokens = self._send(prompts, output_tokens, temperature)
        grown = _grown(before, spec_counters(self._metrics()))
        return [pooled_count(tokens, grown)]

    def _send(self, prompts: Sequence[Prompt], output_tokens: int, temperature: float) -> int:
        sampling = {"max_tokens": output_tokens, "temperature": temperature, "ignore_eos": True}
        if not self._tokens_only:
            body = {"model": self._model, "prompt": list(prompts), **sampling}
            try:
                answer = self._http.json("/v1/completions", body, _REQUEST_S)
                return int(answer["usage"]["completion_tokens"])
            except HttpError as error:
                if error.status is None or isinstance(prompts[0], str):
                    raise
                self._tokens_only = True
                try:
                    return self._send(prompts, output_tokens, temperature)
                except HttpError:
                    self._tokens_only = False
                    raise error from None
        bodies = [
            {"model": self._model, "token_ids": p, "sampling_params": sampling, "stream": False}
            for p in prompts
        ]
        with ThreadPoolExecutor(len(bodies)) as pool:
            sent = [
                pool.submit(self._http.json, "/inference/v1/generate", body, _REQUEST_S) for body in bodies
            ]
            return sum(len(one.result()["choices"][0]["token_ids"] or ()) for one in sent)

    def _metrics(self) -> str:
        try:
            return self._http.text("/metrics")
        except HttpError:
            return ""


def spec_counters(metrics: str) -> dict[str, float]:
    """Return vLLM's counters of speculation, summed over engines; positions as "pos0", "pos1", ..."""
    found: dict[str, float] = {}
    for name, labels, value in _METRIC.findall(metrics):
        if name.endswith("_created"):  # when the counter began
            continue
        position = _POSITION.search(labels)
        key = f"pos{position[1]}" if position else name
        found[key] = found.get(key, 0.0) + float(value)
    return found


def _grown(before: dict[str, float], after: dict[str, float]) -> dict[str, int]:
    return {name: round(value - before.get(name, 0.0)) for name, value in after.items()}


def pooled_count(tokens: int, grown: dict[str, int]) -> RequestCount:
    """Return one entry from counters: `num_drafts` counts requests times cycles."""
    cycles = grown.get("drafts", 0)
    if not cycles:
        return RequestCount(output_tokens=tokens)
    positions = [grown[f"pos{at}"] for at in range(64) if f"pos{at}" in grown]
    at_least = [cycles, *positions, 0]
    return RequestCount(
        output_tokens=tokens,
        verify_cycles=cycles,
        num_correct_drafts=grown.get("accepted_tokens"),
        num_proposed_drafts=grown.get("draft_tokens"),
        correct_drafts_histogram=tuple(max(a - b, 0) for a, b in pairwise(at_least)) if positions else (),
    )
