"""Which fitted group a question is about."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import UndeterminedError
from toolkit.schema.cost import CostModel, GroupModel

_MOST_NAMED = 6
UNKNOWN = "unknown"  # what selects a group whose runs do not name their GPU or draft model


def group_text(group: GroupModel) -> str:
    """Return a group in words, its draft model where others differ in it alone."""
    named = [str(part) for part in (group.engine, group.model, group.gpu) if part]
    if not group.gpu:
        named.append("GPU not known")
    named.append(f"TP{group.tp_size}" if group.tp_size else "TP size not known")
    if group.other_drafts:
        named.append(f"draft {group.draft_model}" if group.draft_model else "draft model not known")
    return ", ".join(named)


def chosen_group(
    model: CostModel,
    *,
    engine: str | None = None,
    model_name: str | None = None,
    gpu: str | None = None,
    tp_size: int | None = None,
    draft_model: str | None = None,
    plain: bool = False,
) -> GroupModel:
    """Return the one group that agrees with what is said; None agrees with every group.

    A model, GPU or draft model is found by any part of its name, unless one group has exactly that name;
    "unknown" finds groups whose GPU or draft model is not known. `plain` asks for plain decoding, in which
    groups of one server are alike whatever their draft model.
    UndeterminedError names the groups when none or several agree.
    """
    left = _of_server(model, engine=engine, model_name=model_name, gpu=gpu, tp_size=tp_size)
    if plain and left and all(_server(group) == _server(left[0]) for group in left):
        return left[0]
    left = _of_draft(left, draft_model)
    _refuse_none(model, left)
    if len(left) == 1:
        return left[0]
    raise UndeterminedError(
        f"the model holds {len(left)} groups that fit ({_names(left)}): choose with {_selectors(left)}"
    )


def agreeing_groups(
    model: CostModel,
    *,
    engine: str | None = None,
    model_name: str | None = None,
    gpu: str | None = None,
    tp_size: int | None = None,
    draft_model: str | None = None,
) -> tuple[GroupModel, ...]:
    """Return every group that agrees with what is said; UndeterminedError when none does."""
    left = _of_server(model, engine=engine, model_name=model_name, gpu=gpu, tp_size=tp_size)
    left = _of_draft(left, draft_model)
    _refuse_none(model, left)
    return tuple(left)


def selecting_options(model: CostModel, group: GroupModel) -> tuple[tuple[str, str], ...]:
    """Return the options of `predict`, with values, that choose a group among all of a model."""
    told = _differing(model.groups)
    values = {
        "--tp-size": None if group.tp_size is None else str(group.tp_size),
        "--engine": group.engine,
        "--model-name": group.model,
        "--gpu": group.gpu or UNKNOWN,
        "--draft-model": group.draft_model or UNKNOWN,
    }
    return tuple((option, value) for option in told if (value := values[option]) is not None)


def _of_server(
    model: CostModel, *, engine: str | None, model_name: str | None, gpu: str | None, tp_size: int | None
) -> list[GroupModel]:
    """Return the groups of a server, whatever their draft model."""
    left = list(model.groups)
    if tp_size is not None:
        left = [group for group in left if group.tp_size == tp_size]
    if engine is not None:
        left = [group for group in left if (group.engine or "").lower() == engine.lower()]
    if model_name is not None:
        left = _named(left, [group.model for group in left], model_name)
    if gpu is not None:
        left = _named(left, [group.gpu or UNKNOWN for group in left], gpu)
    return left


def _of_draft(groups: list[GroupModel], draft_model: str | None) -> list[GroupModel]:
    if draft_model is None:
        return groups
    return _named(groups, [group.draft_model or UNKNOWN for group in groups], draft_model)


def _refuse_none(model: CostModel, left: Sequence[GroupModel]) -> None:
    """Raise UndeterminedError if no group is left."""
    if not model.groups:
        raise UndeterminedError("the model holds no fitted group: write it again with `toolkit model fit`")
    if not left:
        raise UndeterminedError(
            f"no fitted group is the one asked for: choose one that the model holds: {_names(model.groups)}"
        )


def _names(groups: Sequence[GroupModel]) -> str:
    """Return the groups in words, the first six of many."""
    named = "; ".join(group_text(group) for group in groups[:_MOST_NAMED])
    more = len(groups) - _MOST_NAMED
    return f"{named}; and {more} more" if more > 0 else named


def _selectors(groups: Sequence[GroupModel]) -> str:
    """Return the options that tell the groups apart."""
    options = _differing(groups)
    if len(options) < 2:
        return "".join(options) or "runs fitted apart"
    return f"{', '.join(options[:-1])} or {options[-1]}"


def _differing(groups: Sequence[GroupModel]) -> list[str]:
    """Return the options that have more than one value among the groups."""
    differing: dict[str, set[object]] = {
        "--tp-size": {group.tp_size for group in groups},
        "--engine": {group.engine for group in groups},
        "--model-name": {group.model for group in groups},
        "--gpu": {group.gpu for group in groups},
        "--draft-model": {group.draft_model for group in groups},
    }
    return [option for option, values in differing.items() if len(values) > 1]


def _server(group: GroupModel) -> tuple[object, ...]:
    return (group.engine, group.model, group.gpu, group.tp_size)


def _named(groups: Sequence[GroupModel], names: Sequence[str | None], wanted: str) -> list[GroupModel]:
    exact = [group for group, name in zip(groups, names, strict=True) if name == wanted]
    part = [
        group for group, name in zip(groups, names, strict=True) if wanted.lower() in (name or "").lower()
    ]
    return exact or part
