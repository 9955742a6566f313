"""What `toolkit calibrate` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from toolkit.report.tables import counted, number, rendered, single_spaced, table, whole
from toolkit.schema.calibration import Calibration, CollectiveLatency, ForwardTime

_MOST_SIZES = 6  # columns of message sizes that 80 characters hold
_MB = 1e6
_SHORT_OPS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "broadcast": "broadcast"}
_KINDS = {
    "draft_step": "draft step",
    "draft_extend": "draft extend",
    "verify": "verify",
    "decode": "decode",
}


def calibration_text(found: Calibration, folder: str) -> str:
    """Return the tables of a calibration, what was left out, and where it was written."""
    return single_spaced(rendered(_parts(found, folder)))


def _parts(found: Calibration, folder: str) -> Iterator[RenderableType]:
    where = f"{found.gpu_count} x {found.gpu}" if found.gpu_count else "this CPU"
    target, draft = found.target, found.draft
    models = [f"{one.name} ({counted(one.layers, 'layer')})" for one in (target, draft) if one]
    yield Text(f"Measured on {where}, torch {found.torch_version}: {', drafted by '.join(models)}.")
    yield Text(_memory(found))
    if found.collectives:
        yield _collectives(found.collectives)
    if found.forwards:
        yield _forwards(found.forwards)
    for sentence in found.skipped:
        yield Text(f"Not measured: {sentence}.")
    yield Text(f"The run folder is {folder}.")


def _memory(found: Calibration) -> str:
    reads = [one.read_gb_per_s for one in found.memory]
    copies = [one.copy_gb_per_s for one in found.memory]
    return f"Memory: {_between(reads)} GB/s reading, {_between(copies)} GB/s copying (read and written)."


def _between(values: Sequence[float]) -> str:
    low, high = whole(min(values)), whole(max(values))
    return low if low == high else f"{low} to {high}"


def _collectives(found: Sequence[CollectiveLatency]) -> RenderableType:
    shown = _spread(sorted({one.message_bytes for one in found}))
    rows: dict[tuple[str, str, int], dict[int, float]] = {}
    for one in found:
        key = (_SHORT_OPS[one.op], one.algorithm, one.group_size)
        rows.setdefault(key, {})[one.message_bytes] = one.latency_us.median
    return table(
        ("<collective", "<algorithm", "ranks", *map(_size, shown)),
        [
            [op, by, str(ranks), *(number(of.get(size)) for size in shown)]
            for (op, by, ranks), of in rows.items()
        ],
        title="one more collective, us (median)",
    )


def _spread(sizes: Sequence[int]) -> list[int]:
    """Return a handful of sizes, the smallest and the largest among them."""
    if len(sizes) <= _MOST_SIZES:
        return list(sizes)
    step = (len(sizes) - 1) / (_MOST_SIZES - 1)
    return [sizes[round(place * step)] for place in range(_MOST_SIZES)]


def _size(count: int) -> str:
    if count % (1 << 20) == 0:
        return f"{count >> 20} MB"
    return f"{count >> 10} KB" if count % (1 << 10) == 0 else f"{count} B"


def _forwards(found: Sequence[ForwardTime]) -> RenderableType:
    ways = list(dict.fromkeys(one.algorithm for one in found if one.algorithm))
    rows: dict[tuple[str, int, int, int], list[ForwardTime]] = {}
    for one in found:
        rows.setdefault((one.kind, one.tp_size, one.batch_size, one.num_tokens), []).append(one)
    return table(
        ("<forward", "TP", "batch", "tokens", "weights MB", "alone", *(f"+ {way}" for way in ways)),
        [_forward_row(*key, rows[key], ways) for key in sorted(rows, key=_reading_order)],
        title="one forward of a rank, us: alone and with collectives",
    )


def _reading_order(key: tuple[str, int, int, int]) -> tuple[int, int, int, int]:
    kind, tp_size, batch, tokens = key
    return list(_KINDS).index(kind), batch, tokens, tp_size


def _forward_row(
    kind: str, tp_size: int, batch: int, tokens: int, same: Sequence[ForwardTime], ways: Sequence[str]
) -> list[str]:
    totals = {one.algorithm: one.total_us.median for one in same if one.total_us}
    return [
        _KINDS[kind],
        str(tp_size),
        str(batch),
        str(tokens),
        number(same[0].weight_bytes / _MB),
        number(same[0].compute_us.median),
        *(number(totals.get(way)) for way in ways),
    ]
