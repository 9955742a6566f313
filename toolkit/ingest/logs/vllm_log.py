"""vLLM's speculative metrics and engine statistics, V0 and V1, and what the posters made of them."""

from __future__ import annotations

import re

from toolkit.ingest.logs.log_fields import Number, count_after, elided, number_after, number_at
from toolkit.ingest.logs.log_prefix import Prefix, prefix_end, prefix_of
from toolkit.schema.log import LogLine

_V1_HEAD = re.compile(r"SpecDecoding metrics ?:?")
_V0_HEAD = re.compile(r"Speculative metrics ?:")
_ENGINE_HEAD = re.compile(
    r"(?:Engine [0-9]{1,6}|(?:[0-9]{1,6} )?Engines Aggregated) ?:|Avg (?:prompt|generation) throughput ?:"
)
_HEADLESS = re.compile(
    r"Mean acceptance length ?:|(?:Avg )?Draft acceptance rate ?:|Per-position acceptance rate ?:"
)
_LENGTH = re.compile(r"Mean acceptance length ?:?")
_RATE = re.compile(r"(?:Avg )?Draft acceptance rate ?:?", re.IGNORECASE)
_ACCEPTED = re.compile(r"(?<![\w ])(?: ?)Accepted ?:")
_DRAFTED = re.compile(r"(?<![\w ])(?: ?)Drafted ?:")
_BY_POSITION = re.compile(r"Per-position acceptance rate ?:")
_POSITION_RATES = re.compile(r"[0-9.]{1,8}(?: ?, ?[0-9.]{1,8})*")
_GENERATION = re.compile(r"(?:Avg )?generation (?:throughput|tp) ?:?")
_PROMPT = re.compile(r"prompt (?:throughput|tp) ?:?")
_RUNNING = re.compile(r"(?<![\w-])Running ?:")
_POSITION_ROUNDING = 0.0005  # rates by position show three digits
_RATE_ROUNDING = 0.0005  # as a fraction: 88.8%
_LENGTH_ROUNDING = 0.005  # the mean length shows two


def read_vllm_line(line: str, line_number: int) -> LogLine | None:
    """Return what a plain line says; None when it holds neither metrics nor engine statistics."""
    metrics = _V1_HEAD.search(line)
    old = None if metrics else _V0_HEAD.search(line)
    # a start-up line may hold ten thousand characters: a plain search is far cheaper than a pattern
    engine = _ENGINE_HEAD.search(line) if "Engine" in line or "throughput" in line else None
    if metrics or old:
        head = metrics or old
        assert head is not None
        start = min(head.start(), engine.start()) if engine else head.start()
        return _metrics(line, head.end(), prefix_of(line, start), old is not None, line_number)
    if engine:
        return _statistics(line, engine.start(), line_number)
    lost = _HEADLESS.search(line) if "cceptance" in line else None
    if lost and ("acceptance length" in line or "Accepted" in line or "Drafted" in line):
        start = prefix_end(line)
        found = _metrics(line, start, prefix_of(line, start), False, line_number)
        return found if found.accept_length is not None or found.accept_rate is not None else None
    return None


def _metrics(line: str, start: int, prefix: Prefix, is_v0: bool, line_number: int) -> LogLine:
    said = line[start:]
    length, rate = number_after(said, _LENGTH), number_after(said, _RATE)
    positions, whole_list = _by_position(said, length, rate)
    throughput, running = _rates_of_engine(line)
    counts = (None, None) if is_v0 else (count_after(said, _ACCEPTED), count_after(said, _DRAFTED))
    prompt = number_after(line, _PROMPT)
    cut = _v0_is_cut(said) if is_v0 else _v1_is_cut(said, rate, whole_list)
    return LogLine(
        engine="vllm",
        kind="spec_metrics",
        running_req=running,
        accept_length=length.value if length and not length.at_end else None,
        accept_rate=rate.fraction if rate and not rate.at_end and (is_v0 or rate.percent) else None,
        tok_s=throughput,
        timestamp=prefix.timestamp,
        ranks=prefix.ranks,
        truncated=cut or elided(said),
        line_number=line_number,
        prompt_tok_s=prompt.value if prompt and not prompt.at_end else None,
        accept_by_position=positions if whole_list else (),
        num_correct_drafts=counts[0],
        num_proposed_drafts=counts[1],
    )


def _by_position(said: str, length: Number | None, rate: Number | None) -> tuple[tuple[float, ...], bool]:
    """Return the unconditional rates by position and whether the list is all there.

    A list that ends the line is whole if its last rate has three digits and it agrees with the rest:
    1 + the sum of the rates is the mean accept length, (length - 1) / rate the count of positions.
    """
    label = _BY_POSITION.search(said)
    found = _POSITION_RATES.match(said, label.end() + said[label.end() :].startswith(" ")) if label else None
    if found is None:
        return (), False
    texts = [text.strip() for text in found[0].split(",")]
    numbers = [number_at(text) for text in texts]
    if any(number is None for number in numbers):
        return (), False
    rates = tuple(number.value for number in numbers if number)
    following = said[found.end() :].strip(" ,")
    if following:
        return rates, not following.startswith((".", "\u2026"))
    if len(texts[-1].partition(".")[2]) != 3:
        return rates, False
    return rates, length is None or _agrees(rates, length.value, rate.fraction if rate else 0.0)


def _agrees(rates: tuple[float, ...], length: float, rate: float) -> bool:
    slack = _LENGTH_ROUNDING + _POSITION_ROUNDING * len(rates) + 1e-9
    fewest = (length - _LENGTH_ROUNDING - 1) / (rate + _RATE_ROUNDING)
    return abs(1 + sum(rates) - length) <= slack and (rate <= 0 or fewest <= len(rates))


def _v1_is_cut(said: str, rate: Number | None, whole_list: bool) -> bool:
    """Say whether a V1 line stops early.

    Later versions end with the rate, earlier ones begin with it and end with the rates by position,
    the first ones with the count of drafted tokens.
    """
    first = _HEADLESS.search(said)
    if first is None:
        return True
    if first[0].startswith("Draft"):
        if not _LENGTH.search(said):
            return count_after(said, _DRAFTED) is None
        return not whole_list
    if rate is None:  # a window without drafts prints nan
        named = _RATE.search(said)
        return named is None or not said[named.end() :].lstrip().startswith("nan")
    return not rate.percent


def _v0_is_cut(said: str) -> bool:
    """Say whether a V0 line lacks its end, a count and a full stop."""
    _, _, count = said.partition("Number of emitted tokens:")
    return re.match(r" ?[0-9]{1,18}\.", count) is None


def _rates_of_engine(line: str) -> tuple[float | None, int | None]:
    """Return generation throughput in tokens/s and running requests."""
    throughput, running = number_after(line, _GENERATION), count_after(line, _RUNNING)
    return (throughput.value if throughput and not throughput.at_end else None), running


def _statistics(line: str, start: int, line_number: int) -> LogLine | None:
    throughput, running = _rates_of_engine(line)
    if throughput is None and running is None and "throughput" not in line:
        return None
    prefix = prefix_of(line, start)
    prompt = number_after(line, _PROMPT)
    return LogLine(
        engine="vllm",
        running_req=running,
        prompt_tok_s=prompt.value if prompt and not prompt.at_end else None,
        tok_s=throughput,
        timestamp=prefix.timestamp,
        ranks=prefix.ranks,
        truncated=_statistics_are_cut(line[start:]),
        line_number=line_number,
    )


def _statistics_are_cut(said: str) -> bool:
    """Say whether a statistics line stops early: a field is missing or the last one is not whole."""
    last = said.rstrip(" .,").rpartition(",")[2].strip()
    if elided(said) or not _RUNNING.search(said) or not re.search(r"[0-9]", last):
        return True
    if "usage" in last or "hit rate" in last:
        return not last.endswith("%")
    return "throughput" in last and not last.endswith("/s")
