"""The formula of the cycle, as vectors over named coefficients.

    plain = decode + decode_sequence B + decode_context ctx + host_plain
    speculative = (K-1) (draft_forward + draft_selection + draft_sequence B + host_step) + draft_extend
                + verify + verify_token n + verify_sequence B + verify_compute max(n - knee, 0)
                + verify_context ctx + sample + host + host_sequence B,    n = B D

`_context` terms grow with the context of one request, `_kv` terms with that of all; a group has
those that fit better (`columns.py`). `host_serial` is added where host work is not overlapped.
Both engines run K-1 draft forwards and one extend per cycle. Wire time of collectives is apart
(`collective_costs.py`). Runs with another draft TP than most have draft terms of their own, named
`draft_forward_tp1_us` and so on. A chain ties D = K + 1, so step counts at one batch size cannot tell
`draft_forward_us` from `verify_token_us`: see `identify.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toolkit.model.experts import bent, touched
from toolkit.model.model_shape import DENSE, ModelShape

Vector = NDArray[np.float64]
TOKENS_PER_CONTEXT_UNIT = 1000.0
_BENT = ("decode_compute_us", "verify_compute_us", "decode_experts_us", "verify_experts_us")
_OF_OTHER_TP = re.compile(r"(draft_\w+)_tp(\d+)_us")

# name: what one unit of it is multiplied by
PER = {
    "decode_us": "plain step",
    "decode_sequence_us": "sequence",
    "decode_compute_us": "sequence beyond the knee",
    "decode_experts_us": "plain step that reads all experts",
    "decode_context_us": "1000 tokens of context",
    "decode_kv_us": "1000 tokens in the batch",
    "host_plain_us": "plain step",
    "host_plain_serial_us": "plain step without overlap",
    "draft_forward_us": "draft forward",
    "draft_selection_us": "draft forward",
    "draft_sequence_us": "draft forward, sequence",
    "draft_branch_us": "draft forward of a tree",
    "draft_extend_us": "cycle",
    "verify_us": "cycle",
    "verify_sequence_us": "sequence",
    "verify_token_us": "verified token",
    "verify_compute_us": "verified token beyond the knee",
    "verify_experts_us": "cycle that reads all experts",
    "verify_context_us": "1000 tokens of context",
    "verify_kv_us": "1000 tokens in the batch",
    "verify_waves_us": "1000 tokens of context and wave",
    "sample_us": "cycle",
    "host_us": "cycle",
    "host_sequence_us": "sequence",
    "host_step_us": "draft forward",
    "host_serial_us": "cycle without overlap",
    "host_cycle_us": "cycle, a floor",
    "stage_overhead_draft_us": "cycle",
    "stage_overhead_verify_us": "cycle",
    "stage_overhead_sample_us": "cycle",
    "stage_overhead_draft_extend_us": "cycle",
    "stage_overhead_decode_us": "plain step",
}
PHASE_TERMS = {
    "decode": (
        "decode_us",
        "decode_sequence_us",
        "decode_compute_us",
        "decode_experts_us",
        "decode_context_us",
        "decode_kv_us",
    ),
    "draft": ("draft_forward_us", "draft_selection_us", "draft_sequence_us", "draft_branch_us"),
    "draft_extend": ("draft_extend_us",),
    "verify": (
        "verify_us",
        "verify_sequence_us",
        "verify_token_us",
        "verify_compute_us",
        "verify_experts_us",
        "verify_context_us",
        "verify_kv_us",
        "verify_waves_us",
    ),
    "sample": ("sample_us",),
}
FLOOR = "host_cycle_us"
DRAFT_TERMS = (*PHASE_TERMS["draft"], *PHASE_TERMS["draft_extend"])
PLAIN_TERMS = (*PHASE_TERMS["decode"], "host_plain_us", "host_plain_serial_us")
SPECULATIVE_TERMS = (
    *PHASE_TERMS["draft"],
    *PHASE_TERMS["draft_extend"],
    *PHASE_TERMS["verify"],
    *PHASE_TERMS["sample"],
    "host_us",
    "host_sequence_us",
    "host_step_us",
    "host_serial_us",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a cycle's time depends on. `num_draft_tokens` counts the root; `batch_size` is the padded one."""

    num_steps: int
    num_draft_tokens: int
    topk: int
    batch_size: int
    context_tokens: int | None
    overlap: bool = True
    shape: ModelShape = DENSE
    draft_tp: int | None = None  # None: that of most of the group's runs


def draft_column(name: str, draft_tp: int | None) -> str:
    """Return a draft term's name at a draft TP: its own where that is not the one of most runs."""
    return name if draft_tp is None else f"{name.removesuffix('_us')}_tp{draft_tp}_us"


@lru_cache(maxsize=1 << 10)
def term_of(column: str) -> tuple[str, int | None]:
    """Return the term of a column, and the draft TP that it is of, None for that of most runs."""
    found = _OF_OTHER_TP.fullmatch(column)
    return (f"{found[1]}_us", int(found[2])) if found else (column, None)


def factor(column: str, at: Setting) -> float:
    """Return what the coefficient `column` is multiplied by in a cycle of `at`."""
    name, draft_tp = term_of(column)
    if name in DRAFT_TERMS and draft_tp != at.draft_tp:
        return 0.0
    forwards = _forwards(at)
    context = (at.context_tokens or 0) / TOKENS_PER_CONTEXT_UNIT
    if name in ("decode_sequence_us", "verify_sequence_us", "host_sequence_us"):
        return float(at.batch_size)
    if name in ("decode_context_us", "verify_context_us"):
        return context
    if name == "verify_waves_us":
        return context * at.shape.waves(at.batch_size)
    if name in ("decode_kv_us", "verify_kv_us"):
        return context * at.batch_size
    if name in ("host_serial_us", "host_plain_serial_us"):
        return float(not at.overlap)
    if name in ("draft_forward_us", "draft_selection_us", "host_step_us"):
        return float(forwards)
    if name == "draft_sequence_us":
        return float(forwards * at.batch_size)
    if name == "draft_branch_us":
        return float(forwards if at.topk > 1 else 0)
    if name == "verify_token_us":
        return float(at.batch_size * _width(at, at.num_draft_tokens))
    return _of_tokens(name, at) if name in _BENT else 1.0


def _of_tokens(name: str, at: Setting) -> float:
    """Return the tokens of the target's forward beyond its knee, or the share of its experts they read."""
    tokens, experts = at.batch_size * at.num_draft_tokens, at.shape.experts
    if name in ("decode_compute_us", "verify_compute_us"):
        return at.shape.beyond_knee(tokens)
    return 0.0 if experts is None else touched(experts, tokens) / experts.total


def _forwards(at: Setting) -> float:
    """Return the draft forwards of the draft pass; with experts, so that a chain stays one straight line.

    Cycles alone do not tell a draft forward from the tokens it adds to verify: both bend alike.
    """
    if at.num_steps < 2:
        return 0.0
    return _width(at, at.num_steps + 1) - 2.0


def _width(at: Setting, width: int) -> float:
    experts = at.shape.experts
    straight = experts is None or at.shape.experts_apart or width < 2
    return float(width) if experts is None or straight else bent(experts, width, at.batch_size)


def vector(columns: Sequence[str], names: Sequence[str], at: Setting) -> Vector:
    """Return the factors of `names` over `columns`, zero for the others; read-only."""
    return _vector(tuple(columns), tuple(names), at)


@lru_cache(maxsize=1 << 14)  # leaving one configuration out repeats nearly all of them
def _vector(columns: tuple[str, ...], names: tuple[str, ...], at: Setting) -> Vector:
    found = np.array([factor(column, at) if term_of(column)[0] in names else 0.0 for column in columns])
    found.flags.writeable = False
    return found


def cycle_vector(columns: Sequence[str], at: Setting) -> Vector:
    """Return the factors of the whole cycle; a host floor is no summand."""
    return vector(columns, PLAIN_TERMS if at.num_steps == 0 else SPECULATIVE_TERMS, at)


def phase_vector(columns: Sequence[str], phase: str, at: Setting) -> Vector:
    """Return the factors of one phase."""
    return vector(columns, PHASE_TERMS[phase], at)


def floor_vector(columns: Sequence[str], at: Setting) -> Vector | None:
    """Return the factors of the host's floor under a cycle of `at`, None where there is none.

    Plain decoding has none of its own. With one step there is no draft pass, and the host is spared what its
    call takes beyond the graph: on H200 0.7 ms of 5.6 at TP 4, 0.95 of 6.8 at TP 2 (`stage_overhead_draft_us`
    0.55 and 0.8).
    """
    if at.num_steps == 0 or FLOOR not in columns:
        return None
    spared = "stage_overhead_draft_us" if at.num_steps == 1 else None
    return np.array([float(name == FLOOR) - float(name == spared) for name in columns])
