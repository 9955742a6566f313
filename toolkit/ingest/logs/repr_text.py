"""Python reprs as servers log them: `name=value` lists and dicts, nested, quoted, maybe cut."""

from __future__ import annotations

import ast
import re
from typing import Any

_OPEN, _CLOSE = "([{<", ")]}>"
_MAX_VALUE_CHARACTERS = 20_000  # ast needs time and stack for more
_MAX_DEPTH = 8
_CONSTANTS = {"None": None, "True": True, "False": False}
_PLAIN = re.compile(r"'[ -&(-\[\]-~]*'|(0|[1-9][0-9]{0,17})")  # most values; ast takes long for each
_KEYWORD = re.compile(r"\s*([A-Za-z_]\w{0,80})\s*=")
_KEY = re.compile(r"\s*(?:'([^'\\]{1,80})'|\"([^\"\\]{1,80})\")\s*:")


def call_arguments(text: str, start: int) -> dict[str, Any]:
    """Return the `name=value` pairs from `start` to the closing bracket or the end of the text.

    A pair that the text ends in the middle of is left out: half a value is not a value.
    """
    return _pairs(text, start, _KEYWORD)


def dict_items(text: str, start: int) -> dict[str, Any]:
    """Return the items of a dict's repr whose text begins at `start`, after its brace."""
    return _pairs(text, start, _KEY)


def _pairs(text: str, start: int, key: re.Pattern[str], depth: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = start
    while name := key.match(text, at):
        end = value_end(text, name.end())
        if end >= len(text):
            break
        found[name[name.lastindex or 0]] = value_of(text[name.end() : end], depth)
        if text[end] != ",":
            break
        at = end + 1
    return found


def value_end(text: str, start: int) -> int:
    """Return where a value ends: at the comma or bracket that follows it, or the text's length."""
    depth = 0
    at = start
    while at < len(text):
        character = text[at]
        if character in "'\"":
            at = _string_end(text, at)
            continue
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            if depth == 0:
                return at
            depth -= 1
        elif character == "," and depth == 0:
            return at
        at += 1
    return at


def _string_end(text: str, start: int) -> int:
    """Return the index after a quoted string, or the text's length when it never ends."""
    at = start + 1
    while at < len(text) and text[at] != text[start]:
        at += 2 if text[at] == "\\" else 1
    return at + 1 if at < len(text) else len(text)


def value_of(text: str, depth: int = 0) -> Any:
    """Return the Python value of a literal; the arguments of a call as a dict; else the text."""
    text = text.strip()
    if len(text) > _MAX_VALUE_CHARACTERS or depth > _MAX_DEPTH:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if plain := _PLAIN.fullmatch(text):
        return text[1:-1] if plain[1] is None else int(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    bracket = text.find("(")
    if bracket > 0 and text[:bracket].isidentifier() and text.endswith(")"):
        return _pairs(text, bracket + 1, _KEYWORD, depth + 1)
    return _pairs(text, 1, _KEY, depth + 1) if text.startswith("{") and text.endswith("}") else text
