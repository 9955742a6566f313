"""Fields of a log message, read by name; a number that a cut may have shortened is not believed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

# More than 18 digits are no count and no time, and int() refuses thousands of them.
_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}(?![0-9])|[0-9]{1,18})(?:\.[0-9]{1,18})?")
_WHOLE_AFTER = frozenset(" ,;%|)]}\"'\\[<\t")  # may follow a number that is all there
_COMMA = re.compile(r",(?![0-9])")  # one that does not stand inside a number
_NOT_A_NAME = " \t.\u2026"  # dots for what was left out, in front of a name
_ELLIPSES = ("...", "\u2026")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as printed. `at_end`: nothing follows it, so a cut may have taken digits from it."""

    text: str
    percent: bool
    at_end: bool

    @property
    def decimals(self) -> int:
        return len(self.text.partition(".")[2])

    @property
    def value(self) -> float:
        return float(self.text)

    @property
    def fraction(self) -> float:
        """The number as a share: 88.8% is 0.888, without binary noise."""
        return float(Decimal(self.text).scaleb(-2)) if self.percent else float(self.text)


def number_at(text: str, start: int = 0) -> Number | None:
    """Return the number that starts there; None for other text and for a number elided by dots."""
    found = _NUMBER.match(text, start)
    if not found:
        return None
    end = found.end()
    if end == len(text):
        return Number(found[0].replace(",", ""), False, True)
    if text[end] not in _WHOLE_AFTER:
        return None
    return Number(found[0].replace(",", ""), text[end] == "%", False)


def number_after(text: str, label: re.Pattern[str]) -> Number | None:
    """Return the number that follows the first match of `label`; spaces between are allowed."""
    found = label.search(text)
    if not found:
        return None
    start = found.end()
    while text[start : start + 1] == " ":
        start += 1
    return number_at(text, start)


def count_after(text: str, label: re.Pattern[str]) -> int | None:
    """Return the whole number that follows `label`, unless it ends the text."""
    found = number_after(text, label)
    return int(found.text) if found and not found.at_end and not found.decimals else None


def elided(text: str) -> bool:
    """Say whether dots stand for something left out."""
    return any(mark in text for mark in _ELLIPSES)


def comma_fields(text: str) -> tuple[dict[str, str], str]:
    """Return the `name: value` fields between commas, the first of each name, and the last segment.

    Names are lower case. A value keeps the comma that ended it: without one the text ended there.
    The last segment that is not blank is returned as it stands: a cut shows in it.
    """
    fields: dict[str, str] = {}
    last = ""
    segments = _COMMA.split(text.rstrip(" |"))
    for place, segment in enumerate(segments, 1):
        if not segment.strip():
            continue
        last = segment if place == len(segments) else segment + ","
        name, colon, value = last.partition(":")
        if colon:
            fields.setdefault(name.lstrip(_NOT_A_NAME).rstrip().lower(), value.lstrip())
    return fields, last
