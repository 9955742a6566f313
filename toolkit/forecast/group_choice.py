"""Which fitted group a question is about."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import UndeterminedError
from toolkit.schema.cost import CostModel, GroupModel


def group_text(group: GroupModel) -> str:
    """Return a group in words."""
    named = [str(part) for part in (group.engine, group.model, group.gpu) if part]
    return ", ".join([*named, f"TP{group.tp_size}" if group.tp_size else "TP size not known"])


def chosen_group(
    model: CostModel,
    *,
    engine: str | None = None,
    model_name: str | None = None,
    gpu: str | None = None,
    tp_size: int | None = None,
) -> GroupModel:
    """Return the one group that agrees with what is said; None agrees with every group.

    A model or GPU is found by any part of its name, unless one group has exactly that name.
    UndeterminedError names the groups when none or several agree.
    """
    left = list(model.groups)
    if tp_size is not None:
        left = [group for group in left if group.tp_size == tp_size]
    if engine is not None:
        left = [group for group in left if (group.engine or "").lower() == engine.lower()]
    if model_name is not None:
        left = _named(left, [group.model for group in left], model_name)
    if gpu is not None:
        left = _named(left, [group.gpu for group in left], gpu)
    if not model.groups:
        raise UndeterminedError("the model holds no fitted group: write it again with `toolkit model fit`")
    if len(left) == 1:
        return left[0]
    names = "; ".join(group_text(group) for group in (left or model.groups))
    if not left:
        raise UndeterminedError(f"no fitted group is the one asked for; the model holds: {names}")
    raise UndeterminedError(
        f"the model holds {len(left)} groups that fit ({names}): "
        "choose with --tp-size, --engine or --model-name"
    )


def _named(groups: Sequence[GroupModel], names: Sequence[str | None], wanted: str) -> list[GroupModel]:
    exact = [group for group, name in zip(groups, names, strict=True) if name == wanted]
    part = [
        group for group, name in zip(groups, names, strict=True) if wanted.lower() in (name or "").lower()
    ]
    return exact or part
