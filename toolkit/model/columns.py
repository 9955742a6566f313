"""Which coefficients a group's cells can speak about at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolkit.model.cell import Cell
from toolkit.model.terms import PER, draft_column, term_of

# of "decode" and "verify": "context" of one request, "kv" of all, or "waves" (verify)
ContextForms = Mapping[str, str]
PER_REQUEST: ContextForms = {"decode": "context", "verify": "context"}
# contexts closer than this tell nothing about a context term
_CONTEXT_RATIO = 2.0
_LEAST_AROUND_KNEE = 2  # token counts on each side of a knee
_LEAST_BATCHES = 3  # that tell a bend from a straight line where all else is fixed
_PHASES = ("draft", "verify", "sample", "draft_extend", "decode")


def columns_of(
    cells: Sequence[Cell], host_bound: Sequence[bool], context_of: ContextForms = PER_REQUEST
) -> tuple[str, ...]:
    """Return the names of the coefficients, in the order of `terms.PER`.

    Batch and context terms exist only where batch or context varies; otherwise they are inside the
    constants, which then hold for that batch and context.
    """
    plain = [cell for cell in cells if cell.num_steps == 0]
    speculative = [cell for cell in cells if cell.num_steps > 0]
    summed = [cell for cell, floor in zip(cells, host_bound, strict=True) if not floor and cell.cycle]
    wanted: set[str] = set()
    if plain:
        wanted |= _plain_columns(plain, context_of["decode"])
    if speculative:
        wanted |= _speculative_columns(speculative, context_of["verify"])
        wanted |= _host_columns([cell for cell in summed if cell.num_steps > 0])
    if any(host_bound):
        wanted.add("host_cycle_us")
    wanted |= {f"stage_overhead_{phase}_us" for phase in _PHASES if both_measured(cells, phase)}
    places = {name: place for place, name in enumerate(PER)}
    return tuple(sorted(wanted, key=lambda name: (places[term_of(name)[0]], term_of(name)[1] or 0)))


def _plain_columns(cells: Sequence[Cell], context: str) -> set[str]:
    wanted = {"decode_us"}
    if phase_kind(cells, "decode") is not None:
        wanted.add("host_plain_us")
    if {cell.overlap for cell in cells} == {True, False}:
        wanted.add("host_plain_serial_us")
    if _varies(cells):
        wanted |= {"decode_sequence_us", *(("decode_experts_us",) if _apart(cells, _LEAST_BATCHES) else ())}
    if _varies(cells) and _kneed(cells):
        wanted.add("decode_compute_us")
    if context_varies(cells):
        wanted.add(f"decode_{context}_us")
    return wanted


def _speculative_columns(cells: Sequence[Cell], context: str) -> set[str]:
    wanted = {"verify_us", "verify_token_us", *(("verify_experts_us",) if _apart(cells, 2) else ())}
    if _kneed(cells):
        wanted.add("verify_compute_us")
    timed = [cell for cell in cells if "verify" in cell.graph or "verify" in cell.stage]
    if _varies(cell for cell in timed if len(_widths_at(timed, cell)) > 1):
        wanted.add("verify_sequence_us")
    if phase_kind(cells, "sample") is not None:
        wanted.add("sample_us")
    if context_varies(cells):
        wanted.add(f"verify_{context}_us")
    for draft_tp in {cell.other_draft_tp for cell in cells}:
        own = [cell for cell in cells if cell.other_draft_tp == draft_tp]
        wanted |= {draft_column(name, draft_tp) for name in _draft_terms(own)}
    return wanted


def _apart(cells: Sequence[Cell], least_batches: int) -> bool:
    """Return whether experts have a term of their own, beside that of tokens or sequences."""
    batches = {cell.padded_batch_size for cell in cells}
    return len(batches) >= least_batches and any(cell.shape.experts_apart for cell in cells)


def _kneed(cells: Sequence[Cell]) -> bool:
    """Return whether enough forwards lie on both sides of a knee."""
    tokens = {cell.padded_batch_size * cell.num_draft_tokens: cell.shape for cell in cells}
    beyond = [shape.beyond_knee(count) > 0 for count, shape in tokens.items()]
    return min(beyond.count(True), beyond.count(False)) >= _LEAST_AROUND_KNEE


def _draft_terms(cells: Sequence[Cell]) -> set[str]:
    """Return the terms of a draft, of cells with one draft TP."""
    wanted = {"draft_extend_us"}
    if any(cell.num_steps > 1 for cell in cells):
        wanted.add("draft_forward_us")
    if any(cell.steps and cell.steps_exclude_selection and cell.num_steps > 2 for cell in cells):
        wanted.add("draft_selection_us")
    if _varies(cell for cell in cells if cell.num_steps > 1 and _draft_timed(cell)):
        wanted.add("draft_sequence_us")
    if {cell.topk > 1 for cell in cells} == {True, False}:
        wanted.add("draft_branch_us")
    return wanted


def _host_columns(summed: Sequence[Cell]) -> set[str]:
    """Return host terms of cycles that are sums: launches of every draft forward where it has no graph."""
    if not summed:
        return set()
    wanted = {"host_us"}
    if _varies(cell for cell in summed if len(_steps_at(summed, cell)) > 1):
        wanted.add("host_sequence_us")
    if {cell.overlap for cell in summed} == {True, False}:
        wanted.add("host_serial_us")
    if any(cell.draft_eager for cell in summed) and len({cell.num_steps for cell in summed}) > 1:
        wanted.add("host_step_us")
    return wanted


def _draft_timed(cell: Cell) -> bool:
    return "draft" in cell.graph or "draft" in cell.stage or bool(cell.steps)


def _steps_at(cells: Iterable[Cell], like: Cell) -> set[int]:
    """Return the step counts seen at the batch of a cell."""
    return {cell.num_steps for cell in cells if cell.padded_batch_size == like.padded_batch_size}


def _widths_at(cells: Iterable[Cell], like: Cell) -> set[int]:
    """Return the tokens verified per sequence at the batch of a cell."""
    return {cell.num_draft_tokens for cell in cells if cell.padded_batch_size == like.padded_batch_size}


def _varies(cells: Iterable[Cell]) -> bool:
    return len({cell.padded_batch_size for cell in cells}) > 1


def context_varies(cells: Iterable[Cell]) -> bool:
    """Return whether contexts are known everywhere and differ by more than a factor of two."""
    contexts = [cell.context_tokens for cell in cells]
    known = [context for context in contexts if context]
    return len(known) == len(contexts) and max(known) > _CONTEXT_RATIO * min(known)


def phase_kind(cells: Iterable[Cell], phase: str) -> str | None:
    """Return which of its two times a phase is fitted on: "graph" where one cell has it, else "stage"."""
    cells = list(cells)
    if any(phase in cell.graph for cell in cells):
        return "graph"
    return "stage" if any(phase in cell.stage for cell in cells) else None


def both_measured(cells: Iterable[Cell], phase: str) -> bool:
    """Return whether one cell has both times of a phase, which tells its launch overhead."""
    return any(phase in cell.graph and phase in cell.stage for cell in cells)
