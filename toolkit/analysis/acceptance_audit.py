"""What a head of a known offline accuracy should reach, beside what the server does with it.

Offline accuracy is teacher-forced: the share of next tokens that the head gets right when it is fed what the
target saw. Measured over all positions it promises too much: cycles start where the last one failed, and from
the second draft on the head is fed its own states. Published heads fall 5 to 16 % short of the length that it
implies at 5 steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolkit.analysis.cells.cell_key import in_graph
from toolkit.schema.inspection import AcceptanceAudit, AcceptanceReport, Configuration, RunReport

_SHORT = 0.84  # of the implied length: the furthest that published heads fall short
_FAULT = 0.6  # of the drafts that should be kept at least; below, no tuning explains it
_LOW_FIRST = 0.75  # first hazard over the offline accuracy
_STEEP = 0.7  # second hazard over the first
_ALIKE = 0.10  # accept lengths of one server that differ by more, and by three standard errors, are not alike
_STUCK = 1.005  # printed as 1.00
_ENOUGH_REQUESTS, _UNEVEN = 5, 0.5


def audits(run: RunReport, offline_accuracy: float) -> tuple[AcceptanceAudit, ...]:
    """Return one audit for each speculative configuration of a run whose accept length is known."""
    return tuple(
        _audit(run, cell, offline_accuracy)
        for cell in run.configurations
        if (cell.num_steps or 0) > 0 and cell.acceptance and cell.acceptance.accept_length is not None
    )


def implied_length(accuracy: float, steps: int) -> float:
    """Return the tokens a cycle of a chain whose every draft is right with that chance: 1 + p + p^2 + ..."""
    return 1 + sum(accuracy**step for step in range(1, steps + 1))


def _audit(run: RunReport, cell: Configuration, accuracy: float) -> AcceptanceAudit:
    assert cell.num_steps and cell.acceptance and cell.acceptance.accept_length is not None
    high = implied_length(accuracy, cell.num_steps)
    low = max(_SHORT * high, 1 + 0.5 * accuracy)
    measured = cell.acceptance.accept_length
    if run.acceptance_kind == "simulated":
        verdict, why = "cannot tell", "acceptance is simulated: it says nothing of a head"
    elif (cell.topk or 1) > 1:
        verdict, why = "cannot tell", "a tree keeps more than a chain, and by how much its tokens do not say"
    elif measured >= low:
        verdict, why = "as expected", "heads of this accuracy reach it"
    else:
        fault = (measured - 1) < _FAULT * (low - 1)
        verdict = "fault" if fault else "short"
        why = "; ".join(_patterns(cell, accuracy, fault))
    return AcceptanceAudit(
        num_steps=cell.num_steps,
        batch_size=cell.batch_size,
        measured=measured,
        expected_lo=low,
        expected_hi=high,
        verdict=verdict,
        why=why,
    )


def _patterns(cell: Configuration, accuracy: float, fault: bool) -> Iterator[str]:
    """Yield what the pattern points to and what to look at next, most telling first."""
    assert cell.acceptance and cell.acceptance.accept_length is not None
    if cell.acceptance.accept_length <= _STUCK:
        yield (
            "no draft is ever kept: NaN in the head, or its vocabulary map does not fit the target's; print "
            "one cycle's draft ids beside the target's"
        )
        return
    hazards = _hazards(cell.acceptance.accept_by_position)
    if not hazards:
        size = "a gap this large is a fault of wiring, data or precision, not of tuning; " if fault else ""
        yield f"{size}record acceptance by position (spans, client.json, the engine's counters) to see where"
        return
    first = hazards[0]
    if first < _LOW_FIRST * accuracy:
        yield (
            f"the first draft is right {first:.2f} of the time, not near {accuracy:.2f}: hidden states wired "
            "wrongly (layer, order, before or after the norm), another head or target than it was trained "
            "for, or prompts unlike its data; run the head offline on hidden states dumped from this server"
        )
    if len(hazards) > 1 and first > 0 and hazards[1] < _STEEP * first:
        yield (
            f"it falls from {first:.2f} to {hazards[1]:.2f} at the second draft: the head fed its own "
            "states, or its key-value cache and positions in the draft loop; compare with the second token "
            "fed the target's states"
        )
    elif first >= _LOW_FIRST * accuracy:
        shown = " ".join(f"{hazard:.2f}" for hazard in hazards[:5])
        yield (
            f"{shown} by position, given the one before: no single place; compare precision and prompts with "
            "the offline run"
        )
    if _uneven(cell.acceptance):
        yield "requests differ much from each other: look at the prompts of the worst before the head"


def _uneven(acceptance: AcceptanceReport) -> bool:
    """Say whether kept drafts vary between requests by more than half of their mean."""
    if acceptance.se is None or acceptance.requests < _ENOUGH_REQUESTS or acceptance.accept_length is None:
        return False
    between: float = acceptance.se * acceptance.requests**0.5
    return between > _UNEVEN * (acceptance.accept_length - 1)


def _hazards(by_position: Sequence[float]) -> list[float]:
    """Return the chance of each draft given that the one before was kept, as far as any was."""
    found: list[float] = []
    before = 1.0
    for kept in by_position:
        if before <= 0:
            break
        found.append(kept / before)
        before = kept
    return found


def changes(runs: Sequence[RunReport]) -> list[str]:
    """Return sentences on settings that change acceptance though they only change cost.

    Runs are compared that agree in engine, model, steps and width, and differ in batch size or in graph or
    eager. Only real acceptance is.
    """
    found: dict[tuple[object, ...], list[tuple[str, str, float, float]]] = {}
    for run in runs:
        if run.acceptance_kind == "simulated":
            continue
        for cell in run.configurations:
            known = cell.acceptance
            if cell.num_steps and known and known.accept_length is not None:
                key = (run.engine, run.model, cell.num_steps, cell.num_draft_tokens)
                place = f"batch {cell.batch_size}{', eager' if in_graph(cell) is False else ''}"
                found.setdefault(key, []).append((run.run, place, known.accept_length, known.se or 0.0))
    said = []
    for same in found.values():
        low, high = min(same, key=lambda one: one[2]), max(same, key=lambda one: one[2])
        error = (low[3] ** 2 + high[3] ** 2) ** 0.5
        if low[1] != high[1] and high[2] - low[2] > max(_ALIKE * low[2], 3 * error):
            said.append(
                f"accept length is {low[2]:.2f} at {low[1]} ({low[0]}) and {high[2]:.2f} at {high[1]} "
                f"({high[0]}): what is accepted should depend on neither, so look for a fault of the engine, "
                "or for other prompts"
            )
    return said
