"""The check that the target's forwards replayed captured graphs: one launched kernel by kernel costs more."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.analysis.cells.cell_key import in_graph
from toolkit.schema.inspection import Configuration, HealthCheck
from toolkit.schema.run import RunInfo
from toolkit.units import ms_from_us

_WITH_GRAPHS = ("sglang", "vllm")  # engines that capture graphs unless told not to


def graphs_replayed(info: RunInfo, cells: Sequence[Configuration]) -> HealthCheck | None:
    """Return the failed check of cycles without graphs; None where there are none, or no others to expect."""
    told = [(cell, graph) for cell in cells if (graph := in_graph(cell)) is not None]
    eager = [cell for cell, graph in told if not graph]
    replayed = [cell for cell, graph in told if graph]
    if not eager or (not replayed and info.engine not in _WITH_GRAPHS):
        return None
    detail = f"{_places(eager)} ran without CUDA graphs, or with graphs of pieces, launching one by one"
    if replayed:
        detail += (
            f", {_places(replayed)} with them: configurations of their own, and no line goes through "
            "both; look at --cuda-graph-max-bs and what turns graphs off"
        )
    else:
        detail += ": forecasts from them are of a server without graphs"
    return HealthCheck(check="graphs replayed", ok=False, detail=detail)


def _places(cells: Sequence[Configuration]) -> str:
    """Return the batch sizes of configurations, each with its cycle."""
    return ", ".join(dict.fromkeys(f"batch {_batch(cell)}{_cycle(cell)}" for cell in cells))


def _batch(cell: Configuration) -> str:
    return "?" if cell.batch_size is None else str(cell.batch_size)


def _cycle(cell: Configuration) -> str:
    return "" if cell.cycle_us is None else f" ({ms_from_us(cell.cycle_us.median):.2f} ms)"
