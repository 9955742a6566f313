"""What stands in front of a log line's message: time, ranks and whose log it is; colours removed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.schema.log import Ranks

# A colour code as a terminal takes it, as `cat -v` and source code show it, or without its ESC byte.
_ESCAPE = r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\\e|\u241b)"
_COLOUR = re.compile(
    _ESCAPE + r"\[[0-9;:?]{0,24}(?:[ -/]?[@-~]|$)"
    r"|\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m"
)
_MARKUP = re.compile(r"\*\*|`|\x00")
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_TIME = re.compile(
    r"(?<![0-9.:-])(?:[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ]|[0-9]{2}-[0-9]{2} )?"
    + _CLOCK
    + r"(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?(?![0-9:+Z-]|[.,](?:[0-9]|$))(?=.)"
)
_RANK = re.compile(r"(?<![A-Za-z])(TP|DP|EP|PP)([0-9]{1,6})(?![0-9A-Za-z])")
# One element of a prefix: (actor pid=1), [time TP0], a bare time, a level, module.py:12], name  |
_ELEMENT = re.compile(
    r"\s*(?:\([^()]{0,120}\)|\[[^\[\]]{0,120}\]|"
    + _TIME.pattern
    + r"|[A-Z]{4,8}(?=[ :])|[\w./-]{1,80}\.py:[0-9]{1,7}\]?"
    + r"|[\w.-]{1,80}\s{0,20}\|(?=\s)|\||[0-9]{1,10}(?= \[)|:)"
)
_VLLM_PREFIX = re.compile(
    r"\((?:APIServer|EngineCore|VllmWorker|Worker|Engine)[\w ]{0,40} ?pid=[0-9]"
    + r"|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) [0-9]{2}-[0-9]{2} "
    + _CLOCK
    + r"(?:\.[0-9]{1,9})? \[?[\w./-]{1,80}\.py:[0-9]"
)
_SGLANG_PREFIX = re.compile(
    r"\[[0-9]{4}-[0-9]{2}-[0-9]{2} " + _CLOCK + r"(?: (?:TP|DP|EP|PP)[0-9]{1,6}){1,5}\]|\(SGLangEngine "
)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What was read in front of a message; `engine` only where its form belongs to one engine."""

    timestamp: str | None
    ranks: Ranks
    engine: str | None


def plain(line: str) -> str:
    """Return a line without colour codes, markdown bold, code marks and line end."""
    text = line.rstrip("\r\n").replace("\u00a0", " ")
    if "[" in text:
        text = _COLOUR.sub("", text)
    return _MARKUP.sub("", text)


def prefix_of(line: str, message_start: int | None) -> Prefix:
    """Read the prefix of a plain line: all in front of `message_start`, or what looks like one.

    The last time in it is the engine's own: container runtimes and supervisors put theirs in front.
    """
    end = prefix_end(line) if message_start is None else message_start
    times = [found[0] for found in _TIME.finditer(line, 0, min(end + 1, len(line))) if found.end() <= end]
    ranks: dict[str, int] = {}
    for name, number in _RANK.findall(line, 0, end):
        ranks.setdefault(name.lower(), int(number))
    return Prefix(times[-1] if times else None, Ranks(**ranks), _engine(line, end))


def prefix_end(line: str) -> int:
    """Return where the message begins, by the forms that prefixes have."""
    end = 0
    while found := _ELEMENT.match(line, end):
        end = found.end()
    return end


def _engine(line: str, end: int) -> str | None:
    if _VLLM_PREFIX.search(line, 0, end):
        return "vllm"
    return "sglang" if _SGLANG_PREFIX.search(line, 0, end) else None
