"""Which batch sizes a server captured CUDA graphs for: a batch between two costs what the larger does."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from toolkit.model.cell import Cell

_BEYOND = 1 << 12  # of a ladder whose largest size is not known; servers capture up to 512 by default


def captured_sizes(cells: Iterable[Cell]) -> tuple[int, ...]:
    """Return the sizes that most runs of one kind of cells say, else those of their engine's own rules.

    Of SGLang they are batch sizes, of vLLM tokens. Empty where nothing tells, where the forwards ran without
    graphs, and where a batch was seen padded otherwise.
    """
    cells = [cell for cell in cells if not cell.eager]
    told = Counter(cell.graph_sizes for cell in cells if cell.graph_sizes)
    if told:
        return told.most_common(1)[0][0]
    if not cells or cells[0].engine != "sglang":
        return ()
    largest = Counter(cell.largest_graph for cell in cells if cell.largest_graph)
    sizes = sglang_sizes(
        largest.most_common(1)[0][0] if largest else _BEYOND, speculative=cells[0].num_steps > 0
    )
    seen = [(cell.batch_size, cell.padded_batch_size) for cell in cells]
    agrees = all(padded_to(sizes, batch) in (padded, None) for batch, padded in seen)
    return sizes if agrees else ()


def sglang_sizes(largest: int, *, speculative: bool) -> tuple[int, ...]:
    """Return the batch sizes that SGLang (0.5.9 to 0.5.23) captures up to `--cuda-graph-max-bs`.

    Speculation has finer steps, as each padded request costs several tokens.
    """
    ladder: list[range] = [range(1, 3), range(4, 13, 4), range(16, 257, 8), range(272, 512, 16)]
    ladder.append(range(512, largest + 1, 32))
    if speculative:
        ladder = [range(1, 9), range(10, 33, 2), range(40, 65, 4), range(72, 257, 8)]
        ladder.append(range(272, largest + 1, 16))
    return tuple(sorted({size for part in ladder for size in part if size <= largest} | {largest}))


def padded_to(sizes: Sequence[int], batch_size: int, *, tokens: int = 1) -> int | None:
    """Return the batch size of the graph that a batch is padded to; None above the largest one.

    `tokens` of one request where `sizes` count tokens: they are rounded up to whole requests.
    """
    requests = sorted({-(-size // tokens) for size in sizes})
    at = bisect_left(requests, batch_size)
    return requests[at] if at < len(requests) else None
