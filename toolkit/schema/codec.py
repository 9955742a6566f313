"""Records to JSON and back, with the schema name checked first and older files upgraded."""

from __future__ import annotations

from typing import Any

import msgspec

from toolkit.errors import BadInputError
from toolkit.schema.cost import COST_MODEL_SCHEMA, CostModel

_FAMILY, _VERSION = COST_MODEL_SCHEMA.split("/")


def to_json(record: Any) -> str:
    """Return one JSON object for a record, indented by nothing, ending without a newline."""
    return msgspec.json.encode(record).decode()


def cost_model_from_json(text: bytes, source: str) -> CostModel:
    """Return the cost model in `text`; `source` names it in errors."""
    try:
        tree = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInputError(
            f"{source} is not JSON ({error}), so it is no cost model: write it again with `toolkit model fit`"
        ) from None
    version = _version(tree, source)
    while version < int(_VERSION):
        tree = _UPGRADES[version](tree)
        version += 1
    try:
        return msgspec.convert(tree, CostModel)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadInputError(
            f"{source} is damaged ({error}): write it again with `toolkit model fit`"
        ) from None


def _version(tree: Any, source: str) -> int:
    schema = tree.get("schema") if isinstance(tree, dict) else None
    name, _, number = str(schema).partition("/")
    if name != _FAMILY or not number.isdigit():
        raise BadInputError(
            f"{source} says schema {schema!r} where {COST_MODEL_SCHEMA!r} is needed: give a file written by "
            "`toolkit model fit`"
        )
    if int(number) > int(_VERSION):
        raise BadInputError(
            f"{source} has schema {schema!r}, newer than {COST_MODEL_SCHEMA!r} which this toolkit reads: "
            "upgrade the toolkit"
        )
    return int(number)


def _without_draws(tree: dict[str, Any]) -> dict[str, Any]:
    """Upgrade version 0, which held no draws: the solution stands for each, noise comes on top."""
    groups = [{**group, "draws": [group["solution"]]} for group in tree.get("groups", [])]
    return {**tree, "schema": f"{_FAMILY}/1", "groups": groups}


_UPGRADES = {0: _without_draws}
