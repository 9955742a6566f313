"""The check that no accept length is one that a cycle cannot commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolkit.analysis.cells.log_cells import width_of_most_lines
from toolkit.schema.inspection import Configuration, HealthCheck
from toolkit.schema.recording import Recording

_CHECK = "accept length possible"
_HALF_DIGIT = 0.005  # lengths are printed with two digits
_MOST_NAMED = 3


def accept_lengths(recording: Recording, cells: Sequence[Configuration]) -> HealthCheck | None:
    """Return the check of every length that a source states; None where none states one.

    The width is that of the run, else of the log's lines themselves: one damaged line among them must
    not pass because it leaves their width open.
    """
    measured = [(cell, cell.acceptance.accept_length) for cell in cells if cell.acceptance]
    known = [(cell, length) for cell, length in measured if length is not None]
    bad = list(_impossible_lines(recording, cells)) or list(_impossible_cells(known))
    if bad:
        more = f" and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        return HealthCheck(check=_CHECK, ok=False, detail="; ".join(bad[:_MOST_NAMED]) + more)
    if not known:
        return None
    if any(length == 1 and (cell.num_draft_tokens or 0) > 1 for cell, length in known):
        return HealthCheck(check=_CHECK, ok=False, detail="accept length is 1.00: no draft was ever kept")
    return HealthCheck(check=_CHECK, ok=True, detail="between 1 and the draft tokens")


def _impossible_cells(known: Sequence[tuple[Configuration, float]]) -> Iterator[str]:
    for cell, length in known:
        width = cell.num_draft_tokens
        if length < 1 or (width is not None and length > width + _HALF_DIGIT):
            commits = f"1 to {width} tokens" if width else "at least 1 token"
            where = f" (row {cell.row} of the table)" if cell.row else ""
            yield f"accept length {length:.2f} is impossible: a cycle commits {commits}{where}"


def _impossible_lines(recording: Recording, cells: Sequence[Configuration]) -> Iterator[str]:
    """Yield a sentence for each line of the log that states more than its draft tokens allow."""
    if recording.log is None:
        return
    widths = {cell.num_draft_tokens for cell in cells if cell.acceptance and cell.row is None} - {None}
    width = widths.pop() if len(widths) == 1 else recording.info.num_draft_tokens
    implied = ""
    if width is None:
        width = width_of_most_lines(recording.log)
        implied = ", as lengths and rates of most lines imply"
    for line in recording.log.lines:
        length = line.accept_length
        if width is not None and length is not None and length > width + _HALF_DIGIT:
            yield (
                f"accept length {length:.2f} is impossible: a cycle commits 1 to {width} tokens{implied} "
                f"(line {line.line_number} of the log)"
            )
