"""Configurations from what a client counted."""

from __future__ import annotations

from toolkit.analysis.acceptance import from_requests, from_totals
from toolkit.analysis.acceptance_notes import ends_note
from toolkit.analysis.cells.cell_key import CellKey
from toolkit.analysis.cells.context import context_bin
from toolkit.analysis.statistics import spread
from toolkit.schema.client import ClientResult
from toolkit.schema.inspection import AcceptanceReport, Configuration, Throughput
from toolkit.schema.run import RunInfo
from toolkit.units import cycle_us_of


def client_cells(client: ClientResult, info: RunInfo) -> dict[CellKey, Configuration]:
    """Return the one configuration of the driven load.

    A client's seconds include the prompts' prefill, so its cycle is an upper estimate and the last
    source asked for one.
    """
    repeats = [repeat for repeat in client.repeats if repeat.seconds > 0 and repeat.output_tokens > 0]
    batch = info.batch_size if info.batch_size is not None else client.batch_size
    acceptance = _acceptance(client) if info.num_steps != 0 else None
    length = acceptance.accept_length if acceptance else (1.0 if info.num_steps == 0 else None)
    rates = [repeat.output_tokens / repeat.seconds for repeat in repeats]
    cycle_us = (
        spread([cycle_us_of(batch * length, rate) for rate in rates]) if batch and length and rates else None
    )
    seconds = sum(repeat.seconds for repeat in repeats)
    measured = sum(repeat.output_tokens for repeat in repeats) / seconds if seconds else None
    if not rates and acceptance is None:
        return {}
    cell = Configuration(
        batch_size=batch,
        padded_batch_size=None,
        num_steps=info.num_steps,
        num_draft_tokens=info.num_draft_tokens,
        topk=info.topk,
        context_tokens=info.context_tokens,
        cycles=acceptance.cycles // (batch or 1) if acceptance else 0,
        sources=("client",),
        cycle_us=cycle_us,
        cycle_source="client" if cycle_us else None,
        acceptance=acceptance,
        throughput_tok_s=Throughput(measured=measured, measured_by="client" if measured else None),
        notes=ends_note(acceptance) if acceptance else (),
    )
    return {CellKey(batch, None, info.num_steps, context_bin(info.context_tokens)): cell}


def _acceptance(client: ClientResult) -> AcceptanceReport | None:
    return from_requests(client.requests) or (from_totals(client.totals) if client.totals else None)
