"""Where a setting leaves what was seen, and the model error that costs (log-normal, relative)."""

from __future__ import annotations

from math import hypot, log2, sqrt

from toolkit.model.fitted import Support
from toolkit.model.terms import Setting

FORM_INSIDE, FORM_NEAR, FORM_FAR = 0.02, 0.035, 0.10
# cost bends in the batch (experts fill up, then arithmetic bounds): on public tables a line through two
# batch sizes errs by about these shares for each doubling away from the nearest of them
_PER_DOUBLING_INSIDE, _PER_DOUBLING_OUTSIDE = 0.08, 0.12
_PER_CONTEXT_DOUBLING = 0.05  # attention kernels split long contexts otherwise than short ones
_FORM_TREE, _FORM_TREE_OF_EXPERTS = 0.05, 0.08
_TREE_SHARE = 1.1  # of the chain of the same steps and width; dense models, three published pairs
_CONTEXT_FREE = 2.0


def batches_of(support: Support, at: Setting) -> tuple[int, ...]:
    """Return the batch sizes at which cycles of this kind were measured."""
    return support.plain_batches if at.num_steps == 0 else support.speculative_batches


def reach(support: Support, at: Setting, growth: float | None = None) -> tuple[tuple[str, ...], float]:
    """Return marks in words and the standard deviation of the model's error.

    `growth` is by how much the fit's cycle grows from the measured batch below to the one above, as a log;
    below all that were measured, from the batch asked to the least of them.
    """
    found = [_batch(support, at, growth), _steps(support, at), _context(support, at), _topk(support, at)]
    found.append(_overlap(support, at))
    return tuple(mark for mark, _ in found if mark), max(form for _, form in found)


Reach = tuple[str, float]  # a mark ("" for none) and a model error


def _outside(name: str, value: int, seen: tuple[int, ...]) -> Reach:
    if not seen or seen[0] <= value <= seen[-1]:
        return "", FORM_INSIDE
    near = seen[0] / 2 <= value <= 2 * seen[-1]
    return f"{name} {value} outside {seen[0]} to {seen[-1]}", FORM_NEAR if near else FORM_FAR


def _batch(support: Support, at: Setting, growth: float | None) -> Reach:
    """A cycle never shrinks as its batch grows: between two batches it lies between their cycles.

    Below all batches measured it lies between the line and the cycle of the least of them, as nothing but
    a mixture of experts falls faster than straight.
    """
    seen = batches_of(support, at)
    mark, form = _outside("batch size", at.batch_size, seen)
    doublings = min((abs(log2(at.batch_size / batch)) for batch in seen), default=0.0)
    error = (_PER_DOUBLING_OUTSIDE if mark else _PER_DOUBLING_INSIDE) * doublings
    if growth is not None and doublings:
        inside = hypot(FORM_INSIDE, growth / sqrt(12))  # anywhere between the two is as likely
        below = hypot(FORM_INSIDE, growth / sqrt(3)) if at.shape.experts is None else error
        error = min(error, inside if not mark else below)
        form = FORM_INSIDE
    return mark, max(form, error)


def _steps(support: Support, at: Setting) -> Reach:
    return ("", FORM_INSIDE) if at.num_steps == 0 else _outside("num_steps", at.num_steps, support.steps)


def _context(support: Support, at: Setting) -> Reach:
    """Contexts seen at a batch of about the size count: long ones may cost otherwise in large batches."""
    if not at.context_tokens or not support.contexts:
        return "", FORM_INSIDE
    seen = [
        context
        for batch, context in support.contexts
        if at.batch_size / _CONTEXT_FREE <= batch <= at.batch_size * _CONTEXT_FREE
    ] or [context for _, context in support.contexts]
    if min(seen) / _CONTEXT_FREE <= at.context_tokens <= max(seen) * _CONTEXT_FREE:
        return "", FORM_INSIDE
    doublings = min(abs(log2(at.context_tokens / context)) for context in seen)
    form = max(FORM_FAR, _PER_CONTEXT_DOUBLING * doublings)
    return f"context {at.context_tokens} outside {min(seen)} to {max(seen)}", form


def tree_share(support: Support, at: Setting) -> float:
    """Return how much longer a tree takes than the chain the fit knows, where only chains were measured.

    At equal steps and width trees cost about 10 % more on dense models, and on mixtures of experts now
    more, now less.
    """
    only_chains = at.topk > 1 and support.topks == (1,) and at.shape.experts is None
    return _TREE_SHARE if only_chains else 1.0


def _overlap(support: Support, at: Setting) -> Reach:
    seen = support.plain_overlaps if at.num_steps == 0 else support.overlaps
    if not seen or at.overlap in seen:
        return "", FORM_INSIDE
    what = "plain step" if at.num_steps == 0 else "cycle"
    return f"a {what} {'with' if at.overlap else 'without'} the overlap scheduler was not measured", FORM_FAR


def _topk(support: Support, at: Setting) -> Reach:
    if at.num_steps == 0 or not support.topks or at.topk in support.topks:
        return "", FORM_INSIDE
    form = _FORM_TREE if at.shape.experts is None else _FORM_TREE_OF_EXPERTS
    return f"topk {at.topk} was not measured", form
