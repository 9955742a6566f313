"""Sentences that say one thing of many runs, said once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"\d[\d.,]*")
_NAMED = 3  # of those that the first sentence holds for as well


def alike_together(sentences: Iterable[str]) -> list[str]:
    """Return sentences in order; of those that differ in run and numbers alone the first names the others."""
    first: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(sentences):
        name, colon, said = sentence.partition(": ")
        key = _NUMBER.sub("0", said) if colon else sentence
        if key in first:
            others.setdefault(key, []).append(name)
        else:
            first[key] = sentence
    return [f"{sentence}{_of_others(others.get(key, []))}" for key, sentence in first.items()]


def _of_others(names: list[str]) -> str:
    if not names:
        return ""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _NAMED
    return f"; likewise {'; '.join(distinct[:_NAMED])}{f' and {more} more' if more > 0 else ''}"
