"""The command line of one server, checked before any rank starts."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.reference.acceptance import AcceptanceCurve, read_curve
from toolkit.reference.config import ModelConfig, read_config
from toolkit.reference.errors import SettingError

_MODEL_SIZES = ("layers", "hidden", "intermediate", "heads", "kv_heads", "vocab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a server is started. `draft` is None without drafting; `curve` None with real acceptance."""

    target: ModelConfig
    draft: ModelConfig | None
    draft_vocab: int
    tp: int = 1
    draft_tp: int = 1
    num_steps: int = 0
    curve: AcceptanceCurve | None = None
    max_batch: int = 8
    capture_sizes: tuple[int, ...] = (1, 2, 4, 8)
    context: int = 1024
    device: str = "cpu"
    dtype: str = "float32"
    cuda_graphs: bool = True
    collectives: str = "nccl"  # or "one-shot": what adds small messages on GPUs
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    threads: int = 1
    allreduce_delay_us: float = 0.0
    log_interval: int = 40

    @property
    def num_draft_tokens(self) -> int:
        """Tokens of a request that verify is fed, root included."""
        return self.num_steps + 1


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser; `--tp-rank` and `--rendezvous` are how the launcher starts a rank."""
    parser = argparse.ArgumentParser(
        prog="python -m toolkit.reference",
        description="Serve a model of dummy weights with speculative decoding, for calibration and demos.",
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="PATH", help="target: config.json or its folder (default: tiny)")
    add("--draft-config", type=Path, metavar="PATH", help="draft (default: the target's sizes, one layer)")
    for name in (*_MODEL_SIZES, "draft_layers", "draft_vocab"):
        add("--" + name.replace("_", "-"), type=int, metavar="N", help="overrides that size")
    add("--tp", type=int, default=1, metavar="N", help="ranks that share the target")
    add("--draft-tp", type=int, metavar="N", help="ranks that share a draft; a divisor (default: --tp)")
    add("--steps", type=int, default=0, metavar="K", help="draft steps of a cycle; 0 decodes plainly")
    add("--plain", action="store_true", help="decode plainly, whatever --steps says")
    add("--accept-by-position", metavar="A,B,C", help="simulate these acceptances (default: real ones)")
    add("--accept-kind", choices=("position", "conditional"), default="position", help="what A,B,C are")
    add("--max-batch", type=int, default=8, metavar="N", help="requests that run at once")
    add("--capture-sizes", metavar="A,B,C", help="batch sizes to pad to (default: powers of two)")
    add("--context", type=int, default=1024, metavar="N", help="most tokens of a request")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="default: float32 on CPU, else the config's",
    )
    add("--disable-cuda-graph", action="store_true", help="launch every kernel from the host")
    add(
        "--collectives",
        choices=("nccl", "one-shot"),
        default="nccl",
        help="all-reduces up to 512 KB on GPUs: NCCL's, or one step over symmetric memory",
    )
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0, help="0: a free one, printed when the server is ready")
    add("--seed", type=int, default=0, help="of weights and simulated acceptance")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads of a rank")
    add("--allreduce-delay-us", type=float, default=0.0, metavar="X", help="slow every all-reduce down (CPU)")
    add("--decode-log-interval", type=int, default=40, metavar="N", help="cycles between two log lines")
    add("--end-with-stdin", action="store_true", help="end when standard input does, as its parent has")
    add("--tp-rank", type=int, help=argparse.SUPPRESS)
    add("--rendezvous", type=Path, help=argparse.SUPPRESS)
    return parser


def options_of(given: argparse.Namespace) -> Options:
    """Return checked options; SettingError says in one sentence what cannot be."""
    steps = 0 if given.plain else given.steps
    draft_tp = given.draft_tp if given.draft_tp is not None else given.tp
    _require(given.tp >= 1, f"--tp is {given.tp}; give at least 1")
    _require(steps >= 0, f"--steps is {steps}; give 0 or more")
    _require(given.max_batch >= 1, f"--max-batch is {given.max_batch}; give at least 1")
    _require(given.context >= 2, f"--context is {given.context}; give at least 2")
    _require(
        draft_tp >= 1 and given.tp % draft_tp == 0,
        f"--draft-tp {draft_tp} does not divide --tp {given.tp}; give a divisor",
    )
    _require(not given.allreduce_delay_us or given.device == "cpu", "--allreduce-delay-us needs --device cpu")
    one_shot = given.collectives == "one-shot"
    _require(not one_shot or given.device == "cuda", "--collectives one-shot needs --device cuda")
    _require(given.decode_log_interval >= 1, "--decode-log-interval must be at least 1")
    target, draft, draft_vocab = _models(given, steps)
    target.require_split(given.tp, "--tp")
    if draft:
        dataclasses.replace(draft, vocab=draft_vocab).require_split(draft_tp, "--draft-tp")
    return Options(
        target=target,
        draft=draft,
        draft_vocab=draft_vocab,
        tp=given.tp,
        draft_tp=draft_tp,
        num_steps=steps,
        curve=read_curve(given.accept_by_position, given.accept_kind) if steps else None,
        max_batch=given.max_batch,
        capture_sizes=_capture_sizes(given.capture_sizes, given.max_batch),
        context=given.context,
        device=given.device,
        dtype=given.dtype or ("float32" if given.device == "cpu" else target.dtype),
        cuda_graphs=given.device == "cuda" and not given.disable_cuda_graph,
        collectives=given.collectives,
        host=given.host,
        port=given.port,
        seed=given.seed,
        threads=max(1, min(given.threads, os.cpu_count() or 1)),
        allreduce_delay_us=given.allreduce_delay_us,
        log_interval=given.decode_log_interval,
    )


def _models(given: argparse.Namespace, steps: int) -> tuple[ModelConfig, ModelConfig | None, int]:
    """Return target, draft and the draft's vocabulary: the first tokens of the target's."""
    target = read_config(given.config)[0] if given.config else ModelConfig()
    sizes = {name: getattr(given, name) for name in _MODEL_SIZES if getattr(given, name) is not None}
    for name, count in sizes.items():
        _require(count >= 1, f"--{name.replace('_', '-')} is {count}; give at least 1")
    if "heads" in sizes or "hidden" in sizes:
        sizes["head_dim"] = sizes.get("hidden", target.hidden) // sizes.get("heads", target.heads)
    target = dataclasses.replace(target, **sizes)
    _require(
        target.head_dim >= 2 and target.head_dim % 2 == 0,
        f"a head of {target.head_dim} is not even; choose --hidden and --heads whose quotient is",
    )
    if not steps:
        return target, None, target.vocab
    said: dict[str, Any] = {}
    draft = dataclasses.replace(target, layers=1, name=f"{target.name}-draft")
    if given.draft_config:
        draft, said = read_config(given.draft_config)
        _require(
            draft.hidden == target.hidden,
            f"{given.draft_config} has hidden_size {draft.hidden}, not the target's {target.hidden}",
        )
    if given.draft_layers is not None:
        _require(given.draft_layers >= 1, f"--draft-layers is {given.draft_layers}; give at least 1")
        draft = dataclasses.replace(draft, layers=given.draft_layers)
    vocab = given.draft_vocab or said.get("draft_vocab_size") or target.vocab
    _require(
        isinstance(vocab, int) and 1 <= vocab <= target.vocab, f"a draft vocabulary of {vocab} cannot be"
    )
    return target, dataclasses.replace(draft, vocab=target.vocab), int(vocab)


def _capture_sizes(text: str | None, max_batch: int) -> tuple[int, ...]:
    """Return the batch sizes to pad to, ascending; the largest is `max_batch`."""
    if text is None:
        sizes = {1 << power for power in range(max_batch.bit_length())}
    else:
        try:
            sizes = {int(part) for part in text.split(",")}
        except ValueError:
            raise SettingError(f"--capture-sizes {text} is not a list of numbers such as 1,2,4") from None
        _require(min(sizes) >= 1, f"--capture-sizes {text} holds a size below 1")
    return (*sorted(size for size in sizes if size < max_batch), max_batch)


def _require(good: bool, why: str) -> None:
    if not good:
        raise SettingError(why)


def read_options(arguments: Sequence[str]) -> Options:
    """Return the options of a command line: what tests and ranks use."""
    return options_of(argument_parser().parse_args(list(arguments)))
