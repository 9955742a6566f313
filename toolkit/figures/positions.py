"""Configurations whose acceptance by position is worth a line in a figure."""

from __future__ import annotations

from toolkit.figures.comparison import Measured
from toolkit.schema.inspection import Inspection

MOST_SERIES = 6
_WORTH_A_LINE = 0.1  # of the cycles of the run's largest configuration


def with_positions(inspection: Inspection) -> list[list[Measured]]:
    """Return configurations whose acceptance by position is known, a list for each server.

    Of each step count and batch size the one with most cycles; at most six of a server, those with most
    positions.
    """
    best: dict[tuple[object, ...], Measured] = {}
    for run in inspection.runs:
        for cell in run.configurations:
            if cell.acceptance is None or not cell.acceptance.accept_by_position:
                continue
            if cell.cycles < _WORTH_A_LINE * max(one.cycles for one in run.configurations):
                continue  # the end of a load, when few requests are left
            server = (run.engine, run.model, run.gpu, run.tp_size)
            key: tuple[object, ...] = (*server, cell.num_steps, cell.batch_size)
            if key not in best or best[key][1].cycles < cell.cycles:
                best[key] = (run, cell)
    servers: dict[tuple[object, ...], list[Measured]] = {}
    for load, one in best.items():
        servers.setdefault(load[:4], []).append(one)
    return [sorted(sorted(found, key=_positions)[-MOST_SERIES:], key=_order) for found in servers.values()]


def _positions(one: Measured) -> tuple[int, int]:
    acceptance = one[1].acceptance
    return len(acceptance.accept_by_position) if acceptance else 0, one[1].cycles


def _order(one: Measured) -> tuple[int, int]:
    return one[1].num_steps or 0, one[1].batch_size or 0
