"""The batch, context and tree width a forecast is for, with what was assumed said aloud."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from toolkit.model.cell import group_shape
from toolkit.model.graph_sizes import padded_to
from toolkit.model.terms import Setting
from toolkit.schema.cost import GroupModel
from toolkit.schema.forecast import Question

DEFAULT_STEPS = tuple(range(9))
_FAR = 4.0  # times the longest context or the largest batch run: two doublings, all from the form alone
_ONE_CONTEXT = 1.2  # contexts within a fifth are one


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What all candidates of one question share."""

    batch_size: int
    context_tokens: int | None
    topk: int
    steps: tuple[int, ...]
    notes: tuple[str, ...]


def situation_of(group: GroupModel, question: Question) -> Situation:
    """Return batch, context, width and step counts; what was not said comes from the most cycles."""
    notes: list[str] = []
    batch = question.batch_size
    if batch is None:
        batch = _most(group, "batch_size") or 1
        if len({cell.batch_size for cell in group.cells}) > 1:
            notes.append(f"batch size {batch} taken, that of most fitted cycles; --batch-size changes it")
    context = question.context_tokens
    if context is None:
        context = _most(group, "context_tokens", batch) or _most(group, "context_tokens")
        if context is not None and _contexts_differ(group):
            notes.append(f"context {context} taken, that of most fitted cycles; --context-tokens changes it")
    topk = question.topk
    if topk is None:
        widths = Counter({setting.topk: 0 for setting in group.settings})
        for setting in group.settings:
            widths[setting.topk] += setting.cycles
        topk = widths.most_common(1)[0][0] if widths else 1
        if len(widths) > 1:
            notes.append(f"topk {topk} taken, that of most fitted cycles; --topk changes it")
    if topk > 1 and group.engine == "vllm":
        notes.append(f"vLLM drafts chains only, so no flag sets it to topk {topk}")
    notes += graph_note(group, batch)
    return Situation(
        batch_size=batch,
        context_tokens=context,
        topk=topk,
        steps=DEFAULT_STEPS if question.steps is None else question.steps,
        notes=tuple(notes),
    )


def _most(group: GroupModel, field: str, batch_size: int | None = None) -> int | None:
    """Return the value of most cycles (of one batch size); the smaller number when two have as many."""
    counts: Counter[int] = Counter()
    for cell in group.cells:
        value = getattr(cell, field)
        if value is not None and batch_size in (None, cell.batch_size):
            counts[value] += max(cell.cycles, 1)
    return max(counts, key=lambda value: (counts[value], -value)) if counts else None


def _contexts_differ(group: GroupModel) -> bool:
    known = [cell.context_tokens for cell in group.cells if cell.context_tokens]
    return max(known) > _ONE_CONTEXT * min(known)


def too_far(group: GroupModel, batch_size: int, context_tokens: int | None) -> str | None:
    """Return why a batch or context is too far beyond what was run to decide on, None if it is not."""
    longest = max((cell.context_tokens or 0 for cell in group.cells), default=0)
    largest = max((cell.batch_size for cell in group.cells), default=0)
    if longest and context_tokens and context_tokens > _FAR * longest:
        return f"context {context_tokens} is more than {_FAR:g} times the longest that was run, {longest}"
    if largest and batch_size > _FAR * largest:
        return f"batch {batch_size} is more than {_FAR:g} times the largest that was run, {largest}"
    return None


def padded_batch(group: GroupModel, batch_size: int, num_steps: int) -> int:
    """Return the graph size that a batch is padded to: as it was seen, else by the captured sizes.

    Itself where these are not known, and above the largest of them, where no graph is replayed.
    """
    cells = [cell for cell in group.cells if cell.batch_size == batch_size]
    padded = {cell.padded_batch_size for cell in cells if (cell.num_steps > 0) == (num_steps > 0)}
    if padded:
        return min(padded)
    return _in_graph(group, batch_size, num_steps) or batch_size


def _in_graph(group: GroupModel, batch_size: int, num_steps: int) -> int | None:
    """Return the batch size of the graph for a batch; None where there is none, or none is known."""
    sizes = group.graph_sizes if num_steps > 0 else group.plain_graph_sizes
    return padded_to(sizes, batch_size, tokens=num_steps + 1 if group.engine == "vllm" else 1)


def graph_note(group: GroupModel, batch_size: int) -> list[str]:
    """Return a sentence where a batch is above the largest captured graph: forecasts know nothing of that."""
    if any(cell.batch_size >= batch_size for cell in group.cells):
        return []
    kinds = {"speculation": group.graph_sizes, "plain decoding": group.plain_graph_sizes}
    tokens = max((setting.num_draft_tokens for setting in group.settings), default=1)
    beyond = {}
    for kind, sizes in kinds.items():
        each = tokens if group.engine == "vllm" and kind == "speculation" else 1
        if sizes and padded_to(sizes, batch_size, tokens=each) is None:
            beyond[kind] = -(-sizes[-1] // each)
    if not beyond:
        return []
    named = " and ".join(f"{largest} for {kind}" for kind, largest in beyond.items())
    return [
        f"batch {batch_size} is above the largest CUDA graph captured ({named}): its kernels are launched "
        "one by one, which no run has timed"
    ]


def overlap_of(group: GroupModel, num_steps: int) -> bool:
    """Return whether host work is hidden: as in the speculative runs, unless plain ones only had it so.

    A plain step without the scheduler is none of a server with it, and `cycle_at` then gives no value.
    """
    wanted = group.overlap_schedule is not False
    plain = {cell.overlap for cell in group.cells if cell.num_steps == 0}
    return True if num_steps == 0 and plain == {True} else wanted


def draft_tokens(group: GroupModel, num_steps: int, topk: int) -> int:
    """Return the verify width of a step count, root included: fixed for a chain, as run for a tree."""
    if num_steps == 0:
        return 1
    if topk == 1:
        return num_steps + 1
    same = [setting for setting in group.settings if setting.topk == topk]
    for setting in same:
        if setting.num_steps == num_steps:
            return setting.num_draft_tokens
    widest = 1 + topk + (num_steps - 1) * topk**2  # what SGLang's tree of that depth can hold
    return min(max((setting.num_draft_tokens for setting in same), default=num_steps + 1), widest)


def setting_for(
    group: GroupModel, situation: Situation, num_steps: int, *, topk: int | None = None
) -> Setting:
    """Return the setting of one candidate of the situation."""
    width = 1 if num_steps == 0 else (situation.topk if topk is None else topk)
    return Setting(
        num_steps=num_steps,
        num_draft_tokens=draft_tokens(group, num_steps, width),
        topk=width,
        batch_size=padded_batch(group, situation.batch_size, num_steps),
        context_tokens=situation.context_tokens,
        overlap=overlap_of(group, num_steps),
        shape=group_shape(group),
    )
