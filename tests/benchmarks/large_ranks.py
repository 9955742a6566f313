"""Torch profiler traces of hundreds of MB a rank, written as text: a few cycles over and over, with stacks.

The cycles are those of `tests.made_trace`, of a target with 80 layers; around them stand what a profiler
adds with its default settings: Python functions, operators, and an arrow from each launch to each kernel.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.made_trace import BASE_US, Cycles, Engine, Rank, eagle_cycles

_CYCLES = 10  # that differ
_LAYERS = 80
_PYTHON_PER_CYCLE = 1200
_OPERATORS_PER_CYCLE = 216
_BETWEEN_US = 150.0
_EVENTS = '"traceEvents": []'
_FUNCTIONS = [
    f"server/{module}.py({line}): {function}"
    for module in ("scheduler", "worker", "runner", "attention", "memory", "batch")
    for line, function in enumerate(("step", "forward", "prepare", "replay", "allocate", "free"), start=101)
]
_OPERATORS = ("aten::empty", "aten::slice", "aten::as_strided", "aten::view", "aten::to", "aten::copy_")


@dataclass
class _Block:
    """Text of the events of some cycles; each number in it grows by its step from block to block."""

    text: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def add(self, text: str, *numbers: tuple[float, float]) -> None:
        self.text.append(text)
        self.numbers += [number for number, _ in numbers]
        self.steps += [step for _, step in numbers]


def make_ranks(folder: Path, ranks: int = 4, megabytes: float = 202.0) -> list[Path]:
    """Write one trace a rank, each a little longer than `megabytes` (10^6 bytes); return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    cycles = Cycles(ranks, steady=True, slow=ranks - 2 if ranks > 1 else None)
    eagle_cycles(cycles, _CYCLES, Engine(layers=_LAYERS))
    length_us = max(max(rank.host_us, rank.gpu_us) for rank in cycles.ranks) + _BETWEEN_US
    return [_write(folder, cycles, rank, length_us, megabytes * 1e6) for rank in cycles.ranks]


def _write(folder: Path, cycles: Cycles, rank: Rank, length_us: float, size: float) -> Path:
    path = folder / f"made-TP-{rank.number}.trace.json"
    head, key, tail = json.dumps({**cycles.trace(rank, stacks=True), "traceEvents": []}).partition(_EVENTS)
    block = _block(rank, length_us)
    text = "".join(block.text)
    with open(path, "w") as file:
        file.write(f"{head}{key[:-1]}\n")
        number = 0
        while number == 0 or file.tell() < size:
            if number:
                file.write(",\n")
            grown = (n + number * step for n, step in zip(block.numbers, block.steps, strict=True))
            file.write((text % tuple(grown)).rstrip(",\n"))
            number += 1
        file.write(f"\n]{tail}")
    return path


def _block(rank: Rank, length_us: float) -> _Block:
    """Return the events of one rank: first those of the host, then those of the GPU."""
    block = _Block()
    chance = random.Random(rank.number)
    calls = rank.correlation + 1
    _add_stacks(block, chance, length_us)
    for event in sorted(rank.events, key=lambda event: bool(event["cat"] == "kernel")):
        _add_event(block, event, length_us, calls)
    return block


def _add_stacks(block: _Block, chance: random.Random, length_us: float) -> None:
    for number in range(_CYCLES * _PYTHON_PER_CYCLE):
        start = BASE_US + length_us * number / (_CYCLES * _PYTHON_PER_CYCLE)
        block.add(
            _complete("python_function", chance.choice(_FUNCTIONS), 77, round(chance.uniform(0.5, 40.0), 3))
            + f'      "Python parent id": {max(0, number - 3)}, "Python id": {number}, "Ev Idx": {number}\n'
            "    }\n  },\n",
            (start, length_us),
        )
    for number in range(_CYCLES * _OPERATORS_PER_CYCLE):
        start = BASE_US + length_us * number / (_CYCLES * _OPERATORS_PER_CYCLE)
        block.add(
            _complete("cpu_op", _OPERATORS[number % len(_OPERATORS)], 77, 1.25)
            + f'      "External id": {number}, "Record function id": 0, "Concrete Inputs": ["", ""], '
            '"Input type": ["long int", "long int"], "Input Strides": [[4, 1], [4, 1]], '
            f'"Input Dims": [[4, 4], [4, 4]], "Ev Idx": {number}\n    }}\n  }},\n',
            (start, length_us),
        )


def _add_event(block: _Block, event: dict[str, object], length_us: float, calls: int) -> None:
    """Add an event of the cycles, and the end of an arrow where it has a launch."""
    args = event["args"]
    assert isinstance(args, dict)
    start, call = float(str(event["ts"])), args.get("correlation")
    text = _complete(str(event["cat"]), str(event["name"]), int(str(event["tid"])), float(str(event["dur"])))
    if call is None:
        block.add(text + '      "External id": 0, "Ev Idx": 0\n    }\n  },\n', (start, length_us))
        return
    kernel = event["cat"] == "kernel"
    more = (
        ',\n      "queued": 0, "device": 0, "context": 1, "stream": 7,\n      "registers per thread": 76,\n'
        '      "shared memory": 2816,\n      "blocks per SM": 1.0,\n      "warps per SM": 8.0,\n'
        '      "grid": [132, 1, 1],\n      "block": [256, 1, 1],\n      "est. achieved occupancy %%": 12'
        if kernel
        else ', "cbid": 211'
    )
    block.add(
        f'{text}      "External id": 0, "correlation": %d{more}\n    }}\n  }},\n'
        f'  {{\n    "ph": "{"f" if kernel else "s"}", "id": %d, "pid": {event["pid"]}, '
        f'"tid": {event["tid"]}, "ts": %.3f,\n    "cat": "ac2g", "name": "ac2g"{", " if kernel else ""}'
        + ('"bp": "e"\n  },\n' if kernel else "\n  },\n"),
        (start, length_us),
        (call, calls),
        (call, calls),
        (start, length_us),
    )


def _complete(category: str, name: str, thread: int, duration_us: float) -> str:
    """Return the beginning of a complete event; its start is to be filled in."""
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name).replace("%", "%%")}, '
        f'"pid": {thread}, "tid": {thread},\n    "ts": %.3f, "dur": {duration_us:.3f},\n    "args": {{\n'
    )
