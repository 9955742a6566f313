"""What the counts of requests say of an accept length, in sentences."""

from __future__ import annotations

from toolkit.schema.inspection import AcceptanceReport

_SHOWN = 0.01  # of the accept length: less is not worth a sentence
_FEW_CYCLES = 50  # of a request; with more, its last one hardly counts


def ends_note(found: AcceptanceReport) -> tuple[str, ...]:
    """Return a sentence where the ends of requests change the shares kept, or may have."""
    if not found.cycles or not found.requests or found.accept_length is None:
        return ()
    usual = found.cycles / found.requests
    if found.cut_ends:
        censored = 1 + sum(found.accept_by_position)
        if censored / found.accept_length - 1 < _SHOWN:
            return ()
        return (
            f"the end of each request may cut its last cycle: those are right-censored in the shares by "
            f"position, which then make {censored:.2f} tokens a cycle, not {found.accept_length:.2f}",
        )
    if found.cut_ends is None and usual < _FEW_CYCLES:
        return (
            f"requests have {usual:.0f} cycles each and nothing tells whether their ends cut the last one: "
            "then it counts as a rejection; drive longer outputs",
        )
    return ()


def dominance_text(found: AcceptanceReport) -> str | None:
    """Return a sentence about the one request that an accept length is mostly of."""
    one = found.dominant
    if one is None or found.accept_length is None:
        return None
    once = found.accept_length_by_request
    counted_once = "" if once is None else f"; with each request counted once it is {once:.2f}"
    return (
        f"request {one.number} of {found.requests} has {one.cycles_share:.0%} of the cycles at "
        f"{one.accept_length:.2f} tokens a cycle, the others have {one.others_accept_length:.2f}: the accept "
        f"length of {found.accept_length:.2f} is mostly its own (a text that repeats itself?){counted_once}"
    )
