"""What to measure: options of its own, and those of the engine for the model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.reference.errors import SettingError
from toolkit.reference.options import Options, read_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`engine` holds the models, device and type; its tensor-parallel size and step count are not used."""

    engine: Options
    tp_sizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    step_counts: tuple[int, ...]
    context: int
    message_bytes: tuple[int, ...]
    repeats: int
    gpus: int | None
    result: Path
    rendezvous: Path | None


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of what the engine's own does not know; the engine gets the rest."""
    parser = argparse.ArgumentParser(
        prog="python -m toolkit.reference.calibrating",
        description="Measure collectives, memory and forwards on this host. Models as for toolkit.reference.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--result", type=Path, required=True, metavar="FILE", help="where the JSON object goes")
    add("--tp-sizes", default="1,2,4,8", metavar="A,B,C", help="tensor-parallel sizes")
    add("--batch-sizes", default="1,8", metavar="A,B,C")
    add("--step-counts", default="3", metavar="A,B,C", help="draft steps of verify and draft extend")
    add("--context", type=int, default=256, metavar="N", help="tokens of each request")
    add("--message-bytes", default=_powers(10, 22), metavar="A,B,C", help="sizes of collectives")
    add("--repeats", type=int, default=20, metavar="N", help="timings of each")
    add("--gpus", type=int, metavar="N", help="ranks, one a GPU (default: all; on the CPU two)")
    add("--end-with-stdin", action="store_true", help="end when standard input does, as its parent has")
    add("--tp-rank", type=int, help=argparse.SUPPRESS)
    add("--rendezvous", type=Path, help=argparse.SUPPRESS)
    return parser


def settings_of(given: argparse.Namespace, engine: Sequence[str]) -> Settings:
    """Return checked settings; SettingError says in one sentence what cannot be."""
    steps = _numbers("--step-counts", given.step_counts)
    for name, value, least in (
        ("--context", given.context, 1),
        ("--repeats", given.repeats, 1),
        ("--gpus", given.gpus, 1),
    ):
        if value is not None and value < least:
            raise SettingError(f"{name} is {value}; give at least {least}")
    return Settings(
        engine=read_options([*engine, "--steps", str(max(steps))]),
        tp_sizes=_numbers("--tp-sizes", given.tp_sizes),
        batch_sizes=_numbers("--batch-sizes", given.batch_sizes),
        step_counts=steps,
        context=given.context,
        message_bytes=_numbers("--message-bytes", given.message_bytes),
        repeats=given.repeats,
        gpus=given.gpus,
        result=given.result,
        rendezvous=given.rendezvous,
    )


def _powers(first: int, last: int) -> str:
    return ",".join(str(1 << power) for power in range(first, last + 1))


def _numbers(name: str, text: str) -> tuple[int, ...]:
    """Return whole numbers from 1 on, ascending."""
    try:
        values = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise SettingError(f"{name} {text} is not a list of numbers such as 1,2,4") from None
    if values[0] < 1:
        raise SettingError(f"{name} {text} holds a number below 1")
    return tuple(values)
