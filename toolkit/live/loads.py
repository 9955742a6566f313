"""The loads of `--drive`, and the prompts that are sent."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import BadInputError, UsageError
from toolkit.live.generating import Prompt
from toolkit.schema.profile import Load

_WHOLE = {"batch": 1, "tokens": 1, "context": 1}
_MOST_LOADS = 64
_LARGEST = {"batch": 4096, "tokens": 1_000_000, "context": 10_000_000}
_SAFE_VOCABULARY = 256  # of the smallest models
_FIRST_ID = 10  # special tokens lie below


def loads_of(text: str, *, with_prompts: bool) -> tuple[Load, ...]:
    """Return every combination of the lists in `batch=1,4 tokens=512 context=256,4096 temperature=0`.

    `context` is the tokens of a prompt; where prompts come from a file they have their own.
    UsageError names the word that cannot be read.
    """
    lists: dict[str, list[float]] = {"batch": [1], "tokens": [512], "context": [256], "temperature": [0.0]}
    if not text.strip():
        raise UsageError('--drive says nothing; write for example "batch=1,4 tokens=512"')
    seen: set[str] = set()
    for word in text.split():
        name, equals, values = word.partition("=")
        if name in seen:
            raise UsageError(f"--drive says {name}= twice; write {name}=A,B for both")
        seen.add(name)
        if name not in lists or not equals:
            raise UsageError(
                f'--drive: {word!r} is none of batch=, tokens=, context=, temperature=; write "batch=1,4"'
            )
        if name == "context" and with_prompts:
            raise UsageError("--drive: the prompts of --prompts have their own context; leave context= out")
        lists[name] = [_number(name, value) for value in values.split(",")]
    found = tuple(
        Load(
            batch_size=int(batch),
            output_tokens=int(tokens),
            prompt_tokens=None if with_prompts else int(context),
            temperature=temperature,
        )
        for temperature, context, tokens, batch in itertools.product(
            *(lists[name] for name in ("temperature", "context", "tokens", "batch"))
        )
    )
    if len(found) > _MOST_LOADS:
        raise UsageError(f"--drive asks for {len(found)} loads, more than {_MOST_LOADS}; split it")
    return found


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if name == "temperature":
        if not 0 <= value <= 10:
            raise UsageError(f"--drive: temperature={text} is not between 0 and 10; write temperature=0.7")
        return value
    if not _WHOLE[name] <= value <= _LARGEST[name] or value != int(value):
        raise UsageError(f"--drive: {name}={text} is no whole number; write 1 to {_LARGEST[name]}")
    return value


class RandomPrompts:
    """Prompts of random token ids, new ones each time so that no prefix cache knows them."""

    def __init__(self, vocabulary: int | None, seed: int) -> None:
        self._last = max(min(vocabulary or _SAFE_VOCABULARY, 1 << 20), _FIRST_ID + 2) - 1
        self._random = random.Random(seed)

    def batch(self, load: Load) -> list[Prompt]:
        """Return the prompts of one batch."""
        size = load.prompt_tokens or 1
        return [
            [self._random.randint(_FIRST_ID, self._last) for _ in range(size)] for _ in range(load.batch_size)
        ]


class TextPrompts:
    """Prompts of a file, in turn."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = itertools.cycle(texts)

    def batch(self, load: Load) -> list[Prompt]:
        """Return the prompts of one batch."""
        return [next(self._texts) for _ in range(load.batch_size)]


def read_prompts(path: Path) -> list[str]:
    """Return the prompts of a file: one a line, as text, as a JSON string or as {"prompt": text}."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"{path} cannot be read as text ({error}); give a file with one prompt a line"
        ) from None
    found = [_prompt(line) for line in lines if line.strip()]
    if not found:
        raise BadInputError(f"{path} holds no prompt; write one a line")
    return found


def _prompt(line: str) -> str:
    if line.lstrip()[:1] in ('"', "{"):
        try:
            value = json.loads(line)
        except ValueError:
            return line
        if isinstance(value, dict):
            value = value.get("prompt") or value.get("text")
        if isinstance(value, str) and value:
            return value
    return line
