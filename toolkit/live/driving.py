"""Driving a load: batches of requests one after another, in threads so that a wait can be interrupted."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from toolkit.errors import CaptureError
from toolkit.live.generating import Generator, Prompt
from toolkit.live.http import HttpError
from toolkit.schema.client import ClientRepeat, ClientResult, RequestCount
from toolkit.schema.profile import Load
from toolkit.units import US_PER_S

_WARM_UP_TOKENS = 64
_LOOK_S = 0.1
_WANTS_TOKEN_IDS = re.compile("tokenizer|input_ids|token id", re.IGNORECASE)


class Prompts(Protocol):
    """Where prompts come from."""

    def batch(self, load: Load) -> list[Prompt]:
        """Return the prompts of one batch."""


class Flight:
    """One batch under way."""

    def __init__(self, driver: Driver) -> None:
        self._result: tuple[ClientRepeat, list[RequestCount]] | None = None
        self._failure: Exception | None = None
        self._driver = driver
        prompts = driver.prompts.batch(driver.load)
        self._thread = threading.Thread(target=self._run, args=(prompts,), daemon=True)
        self._thread.start()

    def _run(self, prompts: list[Prompt]) -> None:
        load = self._driver.load
        try:
            begin = time.perf_counter()
            counts = self._driver.generator.generate(prompts, load.output_tokens, load.temperature)
            seconds = time.perf_counter() - begin
            tokens = sum(count.output_tokens or 0 for count in counts)
            self._result = ClientRepeat(seconds=seconds, output_tokens=tokens), counts
        except Exception as error:  # handed to the thread that waits
            self._failure = error

    @property
    def over(self) -> bool:
        """Say whether all answers are there."""
        return not self._thread.is_alive()

    def result(self) -> tuple[ClientRepeat, list[RequestCount]]:
        """Wait and return the batch's time and counters; CaptureError if the server refused it."""
        while self._thread.is_alive():
            self._thread.join(_LOOK_S)  # short, so that Ctrl-C is seen
        if self._failure or self._result is None:
            raise CaptureError(_refusal(self._failure, self._driver.load))
        return self._result


def _refusal(error: Exception | None, load: Load) -> str:
    prompt = "prompts of texts" if load.prompt_tokens is None else f"{load.prompt_tokens} prompt tokens"
    asked = f"batch {load.batch_size}, {prompt}, {load.output_tokens} output tokens"
    if isinstance(error, HttpError) and load.prompt_tokens is None and _WANTS_TOKEN_IDS.search(error.reason):
        return (
            "the server takes token ids alone, so no text of --prompts; leave --prompts out to drive it with "
            "random tokens, or start it with a tokenizer"
        )
    why = str(error) if isinstance(error, HttpError) else f"{type(error).__name__}: {error}"
    return f"the server did not serve the load ({asked}): {why}; drive a load that it can serve"


@dataclass
class Driver:
    """One load on one server; every finished batch is kept."""

    generator: Generator
    prompts: Prompts
    load: Load
    repeats: list[ClientRepeat] = field(default_factory=list)
    requests: list[RequestCount] = field(default_factory=list)

    def warm_up(self) -> None:
        """Send one short batch that is not counted."""
        short = min(_WARM_UP_TOKENS, self.load.output_tokens)
        load = Load(
            batch_size=self.load.batch_size,
            output_tokens=short,
            prompt_tokens=self.load.prompt_tokens,
            temperature=self.load.temperature,
        )
        Flight(Driver(self.generator, self.prompts, load)).result()

    def once(self) -> tuple[ClientRepeat, list[RequestCount]]:
        """Send one batch and return it without keeping it."""
        return Flight(self).result()

    def repeat(self, enough: Callable[[], bool]) -> None:
        """Send batches until `enough` says so, which is asked after each."""
        while True:
            self.keep(*self.once())
            if enough():
                return

    def keep(self, repeat: ClientRepeat, counts: list[RequestCount]) -> None:
        """Count a batch in."""
        self.repeats.append(repeat)
        self.requests += counts

    @contextlib.contextmanager
    def under_way(self) -> Iterator[Flight]:
        """Have batches running, one after another, while the block runs; they are not kept."""
        flights = [Flight(self)]
        stop = threading.Event()

        def keep_going() -> None:
            while not stop.wait(_LOOK_S / 10):
                if flights[-1].over:
                    if flights[-1]._failure:
                        return
                    flights.append(Flight(self))

        thread = threading.Thread(target=keep_going, daemon=True)
        thread.start()
        try:
            yield flights[0]
        finally:
            stop.set()
            thread.join()
        flights[-1].result()

    def result(self) -> ClientResult:
        """Return what is written to client.json."""
        return ClientResult(
            batch_size=self.load.batch_size,
            prompt_tokens=self.load.prompt_tokens,
            repeats=tuple(self.repeats),
            requests=tuple(self.requests),
        )


def cycle_us(repeat: ClientRepeat, counts: list[RequestCount], batch_size: int) -> float | None:
    """Return the mean time of a cycle in one batch, prefill included: seconds over cycles of a request."""
    cycles = sum(count.verify_cycles or count.output_tokens or 0 for count in counts) / batch_size
    return repeat.seconds * US_PER_S / cycles if cycles else None
