"""Events as Kineto writes them, by category: those that are used with typed fields, bulk without any.

A chunk with anything else in it, and be it a category that is not listed here, does not decode; it
is read the general way.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

NO_LANE = -(1 << 63)  # of a kernel without a stream
_BULK = (
    "python_function",
    "cpu_op",
    "ac2g",
    "fwdbwd",
    "gpu_user_annotation",
    "cuda_sync",
    "cuda_event",
    "cuda_profiler_range",
    "cpu_instant_event",
    "external_correlation",
    "collective_comm",
    "overhead",
    "Trace",
)


class TypedArgs(msgspec.Struct, gc=False, frozen=True):
    """Arguments that are used; what only collectives of NCCL bear may be of any type."""

    stream: int = NO_LANE
    correlation: int = -1
    node: int = msgspec.field(name="graph node id", default=0)
    group_size: Any = msgspec.field(name="Group size", default=None)
    elements: Any = msgspec.field(name="In msg nelems", default=None)
    dtype: Any = None


class _Used(msgspec.Struct, gc=False):
    ph: Literal["X"]
    name: msgspec.Raw
    pid: int
    tid: int
    ts: msgspec.Raw
    dur: msgspec.Raw
    args: TypedArgs = TypedArgs()


def _used(category: str) -> type[_Used]:
    name = f"Used_{category}"
    made = msgspec.defstruct(name, [], bases=(_Used,), gc=False, tag_field="cat", tag=category)
    return cast(type[_Used], made)


KERNELS = frozenset(map(_used, ("kernel", "gpu_memcpy", "gpu_memset")))
CALLS = frozenset(map(_used, ("cuda_runtime", "cuda_driver", "hip_runtime")))
RANGES = frozenset({_used("user_annotation")})
USED = KERNELS | CALLS | RANGES
_SKIPPED = [msgspec.defstruct(f"Bulk_{name}", [], gc=False, tag_field="cat", tag=name) for name in _BULK]


def _decoder() -> msgspec.json.Decoder[list[Any]]:
    union: Any = None
    for one in (*USED, *_SKIPPED):
        union = one if union is None else union | one
    return msgspec.json.Decoder(list[union])


decode = _decoder().decode
